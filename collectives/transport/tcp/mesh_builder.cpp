// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/mesh_builder.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <unistd.h>

namespace hvd::coll::net {
namespace {

constexpr std::size_t kPage = 64;  // ranks
constexpr std::chrono::milliseconds kLastLook{500};

std::string page_name(const std::string& prefix, std::size_t first) {
    return prefix + "ranks/" + std::to_string(first);
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::connect(Store& store,
                                            const MeshOptions& options,
                                            Deadline deadline) {
    MeshBuilder builder(options, deadline);
    return builder.run(store);
}

MeshBuilder::MeshBuilder(const MeshOptions& options, Deadline deadline)
    : options_(options),
      deadline_(deadline),
      own_{.host = options.host,
           .pid = static_cast<std::int32_t>(::getpid()),
           .network = network_identity(),
           .endpoints = {},
           .host_id = options.host_id.empty() ? options.host : options.host_id},
      connections_({.key = options.key,
                    .rank = {.rank = options.rank, .pid = own_.pid, .host = options.host}},
                   options.size,
                   deadline) {}

Result<std::unique_ptr<Mesh>> MeshBuilder::run(Store& store) {
    HVD_TRY(auto all, host_addresses());
    HVD_TRY(addresses_, allowed_addresses(std::move(all), options_.interfaces));
    HVD_TRY_STATUS(open_listeners());
    HVD_TRY_STATUS(exchange_records(store));
    RouteFinder routes({.rank = options_.rank,
                        .records = records_,
                        .leaders = leaders_,
                        .own_addresses = addresses_,
                        .prefix = options_.prefix},
                       connections_);
    HVD_TRY_STATUS(routes.find(store, deadline_));
    HVD_TRY_STATUS(connect_with_rank_0(routes));
    return make_mesh(routes);
}

Status MeshBuilder::open_listeners() {
    if (options_.rank == options_.size - 1) {
        return ok();  // no rank connects to the last one
    }
    for (const auto& address : addresses_) {
        HVD_TRY(auto listener, listen_at(address, options_.ports, options_.rank));
        own_.endpoints.push_back(listener.endpoint);
        connections_.maker().acceptor().listen(std::move(listener));
    }
    return ok();
}

std::string MeshBuilder::record_name(std::size_t rank) const {
    return options_.prefix + "rank/" + std::to_string(rank);
}

/// Every rank puts its own; rank 0 reads them all and puts them for the others, a page at a time: N
/// requests and a few for each rank instead of N times N.
Status MeshBuilder::exchange_records(Store& store) {
    HVD_TRY_STATUS(store.put(record_name(static_cast<std::size_t>(options_.rank)), encode(own_)));
    HVD_TRY_STATUS(options_.rank == 0 ? collect_records(store) : read_records(store));
    leaders_ = leaders_of(records_);
    connections_.use_records(records_);
    return ok();
}

Status MeshBuilder::collect_records(Store& store) {
    const auto size = static_cast<std::size_t>(options_.size);
    records_.push_back(own_);
    for (std::size_t rank = 1; rank < size; ++rank) {
        auto bytes = store.get(record_name(rank), deadline_);
        if (!bytes) {
            return missing_rank(static_cast<int>(rank), std::move(bytes).error());
        }
        HVD_TRY(auto record, decode_rank_record(*bytes));
        records_.push_back(std::move(record));
        const auto first = rank / kPage * kPage;
        const bool is_last = rank + 1 == size || rank + 1 == first + kPage;
        HVD_TRY_STATUS(
            is_last ? store.put(
                          page_name(options_.prefix, first),
                          encode(std::vector(records_.begin() + static_cast<std::ptrdiff_t>(first),
                                             records_.end())))
                    : ok());
    }
    return ok();
}

Status MeshBuilder::read_records(Store& store) {
    const auto size = static_cast<std::size_t>(options_.size);
    while (records_.size() < size) {
        const auto first = records_.size();
        auto bytes = store.get(page_name(options_.prefix, first), deadline_);
        if (!bytes) {
            return missing_record(store, first, std::move(bytes).error());
        }
        HVD_TRY(auto page, decode_rank_records(*bytes));
        if (page.size() != std::min(kPage, size - first)) {
            return Error{Errc::internal, "a list of ranks in the store has a wrong length"};
        }
        std::ranges::move(page, std::back_inserter(records_));
    }
    records_[static_cast<std::size_t>(options_.rank)] = own_;
    return ok();
}

/// Rank 0 has not put the records of a page: names the rank that it waits for.
Error MeshBuilder::missing_record(Store& store, std::size_t first, Error late) const {
    const auto end = std::min(first + kPage, static_cast<std::size_t>(options_.size));
    for (auto rank = first; late.code == Errc::timed_out && rank < end; ++rank) {
        if (!store.get(record_name(rank), Deadline::in(kLastLook))) {
            return missing_rank(static_cast<int>(rank), std::move(late));
        }
    }
    return std::move(late).context("rank 0 has not told where the other ranks are");
}

Status MeshBuilder::connect_with_rank_0(const RouteFinder& routes) {
    std::vector<int> awaited{0};
    if (options_.rank == 0) {
        awaited.clear();
        for (int rank = 1; rank < options_.size; ++rank) {
            awaited.push_back(rank);
        }
    } else if (!routes.is_leader()) {  // a leader has connected to rank 0 already
        HVD_TRY(auto endpoints, routes.endpoints_of(0));
        connections_.connect(0, std::move(endpoints));
    }
    return connections_.wait_for(std::move(awaited));
}

Result<std::unique_ptr<Mesh>> MeshBuilder::make_mesh(const RouteFinder& routes) {
    std::vector<Mesh::Peer> peers(records_.size());
    std::vector<DataConnector::Target> targets(records_.size());
    for (int rank = 0; rank < options_.size; ++rank) {
        const auto index = static_cast<std::size_t>(rank);
        auto& peer = peers[index];
        peer.identity = {rank, records_[index].pid, records_[index].host};
        peer.address = connections_.address_of(rank);
        peer.control = Connection(std::move(connections_.socket(rank, Purpose::control)));
        peer.data = Connection(std::move(connections_.socket(rank, Purpose::data)));
        if (rank < options_.rank) {
            HVD_TRY(targets[index].endpoints, routes.endpoints_of(rank));
        } else {
            targets[index].here = routes.own_address_for(rank);
        }
    }
    return std::unique_ptr<Mesh>(new Mesh({.rank = options_.rank,
                                           .link_limit = options_.link_limit,
                                           .lease = options_.lease,
                                           .reactor = connections_.take_reactor(),
                                           .maker = connections_.take_maker(),
                                           .peers = std::move(peers),
                                           .targets = std::move(targets),
                                           .host_routes = routes.host_routes(),
                                           .host_leaders = leaders_}));
}

}  // namespace hvd::coll::net
