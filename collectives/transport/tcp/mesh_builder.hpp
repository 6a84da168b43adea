// SPDX-License-Identifier: Apache-2.0
//
// How a Mesh comes to be: the ranks leave their addresses in the store; the lowest ranks of the
// hosts, their scouts, find out by which addresses each two hosts reach each other; then every rank
// connects with rank 0. One thread, one reactor, one deadline.
#pragma once

#include "collectives/transport/tcp/connection_maker.hpp"
#include "collectives/transport/tcp/mesh.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvd::coll::net {

class MeshBuilder final : private ConnectionMaker::Owner {
public:
    MeshBuilder(const MeshOptions& options, Deadline deadline);

    [[nodiscard]] Result<std::unique_ptr<Mesh>> run(Store& store);

private:
    [[nodiscard]] Status open_listeners();
    [[nodiscard]] Status exchange_records(Store& store);
    [[nodiscard]] Status collect_records(Store& store);
    [[nodiscard]] Status read_records(Store& store);
    [[nodiscard]] Error missing_record(Store& store, std::size_t first, Error late) const;
    [[nodiscard]] std::string record_name(std::size_t rank) const;
    [[nodiscard]] Status exchange_key(Store& store);

    // In meeting_ways.cpp: by which addresses.
    [[nodiscard]] Status find_ways(Store& store);
    [[nodiscard]] Status scout();
    [[nodiscard]] Status hear_from_scout(Store& store);
    void keep_listeners_on_ways();
    [[nodiscard]] const Way* way_to(int rank) const;
    [[nodiscard]] std::vector<ListenAddress> ways_to(int rank) const;
    [[nodiscard]] std::vector<HostRoute> host_routes() const;
    [[nodiscard]] bool is_homogeneous() const;
    [[nodiscard]] int own_scout() const;
    [[nodiscard]] bool is_scout() const { return own_scout() == options_.rank; }

    [[nodiscard]] Result<std::vector<ListenAddress>> doors_of(int rank) const;
    [[nodiscard]] Status call(int rank, Purpose purpose);
    [[nodiscard]] Status connect_rest();
    [[nodiscard]] Status connect_awaited();
    [[nodiscard]] Purpose purpose_with(int rank) const;
    [[nodiscard]] bool is_awaited(int rank) const;
    [[nodiscard]] bool is_complete() const;
    [[nodiscard]] UniqueFd& socket(int rank, Purpose purpose);
    [[nodiscard]] const UniqueFd& socket(int rank, Purpose purpose) const;
    [[nodiscard]] Result<std::vector<Mesh::Peer>> make_peers();

    [[nodiscard]] bool admits(int rank, Purpose purpose) const override;
    void on_made(ConnectionMaker::Made made) override;
    void on_refused(int rank, const ConnectionMaker::Refusal& refusal) override;
    void on_accept_failed(const Error& why) override { broken_ = why; }
    [[nodiscard]] bool on_tick() override { return false; }

    [[nodiscard]] Error missing() const;
    [[nodiscard]] std::string describe(int rank) const;

    MeshOptions options_;
    Deadline deadline_;
    JobKey key_{};
    std::vector<HostAddress> addresses_;
    RankRecord own_;
    std::vector<RankRecord> records_;  // by rank
    std::vector<int> scouts_;          // by rank: of its host
    std::vector<Way> ways_;            // to each host, the own one included
    bool is_scouting_ = false;         // only the links between scouts are awaited
    std::unique_ptr<Reactor> reactor_;
    std::unique_ptr<ConnectionMaker> maker_;
    std::vector<std::array<UniqueFd, kPurposes>> sockets_;  // by rank
    std::vector<std::string> used_;                         // by rank: the address
    std::optional<Error> broken_;
};

}  // namespace hvd::coll::net
