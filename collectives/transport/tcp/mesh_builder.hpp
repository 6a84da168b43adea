// SPDX-License-Identifier: Apache-2.0
//
// How a Mesh comes to be: the ranks put their addresses into the store; the leaders of the hosts
// find the routes between these; then every rank connects with rank 0. One thread, one reactor, one
// deadline.
#pragma once

#include "collectives/rendezvous/store.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "collectives/transport/tcp/rank_record.hpp"
#include "collectives/transport/tcp/route_finder.hpp"
#include "collectives/transport/tcp/start_connections.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace hvd::coll::net {

class MeshBuilder {
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
    [[nodiscard]] Status connect_with_rank_0(const RouteFinder& routes);
    [[nodiscard]] Result<std::unique_ptr<Mesh>> make_mesh(const RouteFinder& routes);

    MeshOptions options_;
    Deadline deadline_;
    std::vector<HostAddress> addresses_;
    RankRecord own_;
    std::vector<RankRecord> records_;  // by rank
    std::vector<int> leaders_;         // by rank: of its host
    StartConnections connections_;
};

}  // namespace hvd::coll::net
