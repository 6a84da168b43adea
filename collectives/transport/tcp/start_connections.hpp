// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/transport/tcp/connection_maker.hpp"
#include "collectives/transport/tcp/rank_record.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvd::coll::net {

/// The connections that a rank makes while its world starts: one with rank 0, or with all ranks,
/// for control, and probes that find out which addresses work. Blocks its one thread.
class StartConnections final : private ConnectionMaker::Owner {
public:
    StartConnections(Identity self, int size, Deadline deadline);

    /// For messages, before any connection is made. Outlives the use.
    void use_records(const std::vector<RankRecord>& records) noexcept { records_ = &records; }

    [[nodiscard]] ConnectionMaker& maker() noexcept { return *maker_; }

    /// Rank 0 has a control connection with every rank; the others only probe whether they could.
    [[nodiscard]] Purpose purpose_with(int rank) const noexcept;

    /// Begins to connect to a lower rank.
    void connect(int rank, std::vector<ListenAddress> endpoints);

    /// Waits until a connection with each of the ranks stands. Errors: timed_out (names the missing
    /// ranks and the attempts), unavailable (rank, host, every address and why it did not work).
    [[nodiscard]] Status wait_for(std::vector<int> ranks);

    /// None where no connection stands.
    [[nodiscard]] UniqueFd& socket(int rank, Purpose purpose);
    [[nodiscard]] const UniqueFd& socket(int rank, Purpose purpose) const;
    /// Where this rank connected last to the rank; empty where that one connected.
    [[nodiscard]] const std::string& address_of(int rank) const;

    [[nodiscard]] std::string describe(int rank) const;

    /// Both are used further.
    [[nodiscard]] std::unique_ptr<Reactor> take_reactor() noexcept { return std::move(reactor_); }
    [[nodiscard]] std::unique_ptr<ConnectionMaker> take_maker() noexcept {
        return std::move(maker_);
    }

private:
    [[nodiscard]] bool is_missing(int rank) const { return !socket(rank, purpose_with(rank)); }
    [[nodiscard]] Error missing(const std::vector<int>& ranks) const;

    [[nodiscard]] bool admits(int rank, Purpose purpose) const override;
    void on_made(ConnectionMaker::Made made) override;
    void on_refused(int rank, const Refusal& refusal) override;
    void on_accept_failed(const Error& why) override { broken_ = why; }
    [[nodiscard]] bool on_tick() override { return false; }

    RankIdentity self_;
    int size_;
    Deadline deadline_;
    const std::vector<RankRecord>* records_ = nullptr;
    std::unique_ptr<Reactor> reactor_;
    std::unique_ptr<ConnectionMaker> maker_;
    std::vector<std::array<UniqueFd, kPurposes>> sockets_;  // by rank
    std::vector<std::string> addresses_;                    // by rank
    std::optional<Error> broken_;
};

}  // namespace hvd::coll::net
