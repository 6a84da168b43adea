// SPDX-License-Identifier: Apache-2.0
//
// How a Mesh makes data connections. A pair of ranks has none until both want it, in the same step
// of the same collective; then the higher rank connects. The lower one may be connected to at any
// time, whether it has come to that step or not, since its reactor authenticates the peer.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/transport/tcp/connection_maker.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvd::coll::net {

/// Thread: progress lock.
class DataConnector final : private ConnectionMaker::Owner {
public:
    /// Where the connection with a rank is made.
    struct Target {
        std::vector<ListenAddress> endpoints{};  // of a lower rank: where to connect
        std::optional<IpAddress> here{};         // where a higher rank connects; nothing: anywhere
    };

    struct Handlers {
        std::function<void(int rank, UniqueFd socket, std::string address)> on_connected;
        std::function<bool(int rank)> is_connected;
        std::function<std::string(int rank)> describe;
    };

    struct Options {
        int rank = 0;
        std::chrono::milliseconds limit{};  // for a connection that a rank waits for
        std::vector<Target> targets{};      // by rank
    };

    /// `handlers` are called from here on.
    DataConnector(std::unique_ptr<ConnectionMaker> maker, Options options, Handlers handlers);

    /// Sees to it that the connection with the rank comes to be. Both ranks must request it.
    void request(int rank);
    /// Why it will not come to be. Errors: timed_out (rank, address, limit), unavailable.
    [[nodiscard]] Status status(int rank) const;

    /// From now on nothing listens, and a request fails.
    void stop();

    /// Of a lower rank.
    [[nodiscard]] const std::vector<ListenAddress>& endpoints_of(int rank) const {
        return request_of(rank).target.endpoints;
    }
    [[nodiscard]] const std::vector<ListenAddress>& listening_at() const noexcept {
        return maker_->acceptor().listening_at();
    }
    void close_in_child() const noexcept { maker_->close_in_child(); }

private:
    struct Request {
        Target target{};
        std::optional<ConnectionMaker::Clock::duration> requested_at{};
        std::optional<Error> failure{};
    };

    [[nodiscard]] int size() const noexcept { return static_cast<int>(requests_.size()); }
    [[nodiscard]] Request& request_of(int rank);
    [[nodiscard]] const Request& request_of(int rank) const;
    [[nodiscard]] bool is_awaited(int rank) const;
    [[nodiscard]] std::chrono::milliseconds limit_with(int rank) const;
    [[nodiscard]] Error late(int rank) const;
    void close_idle_listeners();

    [[nodiscard]] bool admits(int rank, Purpose purpose) const override;
    void on_made(ConnectionMaker::Made made) override;
    void on_refused(int rank, const Refusal& refusal) override;
    void on_accept_failed(const Error& why) override;
    [[nodiscard]] bool on_tick() override;

    std::unique_ptr<ConnectionMaker> maker_;
    int rank_;
    std::chrono::milliseconds limit_;
    std::vector<Request> requests_;  // by rank
    Handlers handlers_;
    bool is_stopped_ = false;
};

}  // namespace hvd::coll::net
