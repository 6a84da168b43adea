// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/mesh_builder.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include <sys/random.h>
#include <unistd.h>

namespace hvd::coll::net {
namespace {

constexpr int kRounds = 2;         // of attempts, where all are refused
constexpr std::size_t kPage = 64;  // ranks
constexpr std::chrono::milliseconds kLastLook{500};

std::string page_name(const std::string& prefix, std::size_t first) {
    return prefix + "ranks/" + std::to_string(first);
}

template <std::size_t kSize>
Status fill_random(std::array<std::byte, kSize>& bytes) {
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        return system_error("getrandom", errno);
    }
    return ok();
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::meet(Store& store,
                                         const MeshOptions& options,
                                         Deadline deadline) {
    MeshBuilder meeting(options, deadline);
    return meeting.run(store);
}

MeshBuilder::MeshBuilder(const MeshOptions& options, Deadline deadline)
    : options_(options),
      deadline_(deadline),
      own_{.host = options.host,
           .pid = static_cast<std::int32_t>(::getpid()),
           .network = network_identity(),
           .endpoints = {},
           .home = options.home.empty() ? options.host : options.home},
      reactor_(std::make_unique<Reactor>()),
      maker_(std::make_unique<ConnectionMaker>(
          *reactor_,
          RankIdentity{.rank = options.rank, .pid = own_.pid, .host = options.host},
          static_cast<std::size_t>(options.size) * kPurposes)),
      sockets_(static_cast<std::size_t>(options.size)),
      used_(static_cast<std::size_t>(options.size)) {
    maker_->work_for(*this);
}

Result<std::unique_ptr<Mesh>> MeshBuilder::run(Store& store) {
    HVD_TRY(auto all, host_addresses());
    HVD_TRY(addresses_, allowed_addresses(std::move(all), options_.interfaces));
    HVD_TRY_STATUS(open_listeners());
    HVD_TRY_STATUS(exchange_key(store));
    HVD_TRY_STATUS(exchange_records(store));
    HVD_TRY_STATUS(find_ways(store));
    HVD_TRY_STATUS(connect_rest());
    HVD_TRY(auto peers, make_peers());
    return std::unique_ptr<Mesh>(new Mesh({.rank = options_.rank,
                                           .link_limit = options_.link_limit,
                                           .reactor = std::move(reactor_),
                                           .maker = std::move(maker_),
                                           .peers = std::move(peers),
                                           .host_routes = host_routes(),
                                           .is_homogeneous = is_homogeneous()}));
}

bool MeshBuilder::is_homogeneous() const {
    std::map<std::string_view, std::size_t> ranks_of;
    for (const auto& record : records_) {
        ++ranks_of[record.home];
    }
    return std::ranges::all_of(ranks_of, [&](const auto& entry) {
        return entry.second * ranks_of.size() == records_.size();
    });
}

Result<std::vector<Mesh::Peer>> MeshBuilder::make_peers() {
    std::vector<Mesh::Peer> peers(sockets_.size());
    for (int rank = 0; rank < options_.size; ++rank) {
        const auto index = static_cast<std::size_t>(rank);
        auto& peer = peers[index];
        peer.identity = {rank, records_[index].pid, records_[index].host};
        peer.address = used_[index];
        peer.control = Connection(std::move(socket(rank, Purpose::control)));
        peer.data = Connection(std::move(socket(rank, Purpose::data)));
        if (rank < options_.rank) {
            HVD_TRY(peer.way.doors, doors_of(rank));
        } else if (const Way* way = way_to(rank)) {
            peer.way.here = way->here;
        }
    }
    return peers;
}

// ---- what the store is for ----------------------------------------------------------------------

Status MeshBuilder::open_listeners() {
    if (options_.rank == options_.size - 1) {
        return ok();  // nobody connects to the last one
    }
    for (const auto& address : addresses_) {
        HVD_TRY(auto listener, listen_at(address, options_.ports, options_.rank));
        own_.endpoints.push_back(listener.endpoint);
        maker_->listen(std::move(listener));
    }
    return ok();
}

Status MeshBuilder::exchange_key(Store& store) {
    const auto name = options_.prefix + "key";
    if (options_.rank == 0) {
        HVD_TRY_STATUS(fill_random(key_));
        maker_->use_key(key_);
        return store.put(name, key_);
    }
    const auto key = store.get(name, deadline_);
    if (!key) {
        return missing_rank("rank 0", key.error());
    }
    if (key->size() != key_.size()) {
        return Error{Errc::internal, "the job's key in the store has a wrong length"};
    }
    std::ranges::copy(*key, key_.begin());
    maker_->use_key(key_);
    return ok();
}

std::string MeshBuilder::record_name(std::size_t rank) const {
    return options_.prefix + "rank/" + std::to_string(rank);
}

/// Every rank leaves its own; rank 0 reads them all and leaves them for the others, a page at a
/// time: N requests and a few for each rank instead of N times N.
Status MeshBuilder::exchange_records(Store& store) {
    HVD_TRY_STATUS(store.put(record_name(static_cast<std::size_t>(options_.rank)), encode(own_)));
    HVD_TRY_STATUS(options_.rank == 0 ? collect_records(store) : read_records(store));
    scouts_ = scouts_of(records_);
    return ok();
}

Status MeshBuilder::collect_records(Store& store) {
    const auto size = static_cast<std::size_t>(options_.size);
    records_.push_back(own_);
    for (std::size_t rank = 1; rank < size; ++rank) {
        auto bytes = store.get(record_name(rank), deadline_);
        if (!bytes) {
            return missing_rank("rank " + std::to_string(rank), std::move(bytes).error());
        }
        HVD_TRY(auto record, decode_rank_record(*bytes));
        records_.push_back(std::move(record));
        const auto first = rank / kPage * kPage;
        const bool is_last = rank + 1 == size || rank + 1 == first + kPage;
        HVD_TRY_STATUS(is_last ? store.put(page_name(options_.prefix, first),
                                           encode(std::span(records_).subspan(first)))
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

/// Rank 0 has not told who the ranks of a page are: whom it waits for.
Error MeshBuilder::missing_record(Store& store, std::size_t first, Error late) const {
    const auto end = std::min(first + kPage, static_cast<std::size_t>(options_.size));
    for (auto rank = first; late.code == Errc::timed_out && rank < end; ++rank) {
        if (!store.get(record_name(rank), Deadline::in(kLastLook))) {
            return missing_rank("rank " + std::to_string(rank), std::move(late));
        }
    }
    return std::move(late).context("rank 0 has not told where the other ranks are");
}

std::string MeshBuilder::describe(int rank) const {
    const auto& record = records_[static_cast<std::size_t>(rank)];
    return "rank " + std::to_string(rank) + " (pid " + std::to_string(record.pid) + " on host " +
           record.host + ")";
}

// ---- connections --------------------------------------------------------------------------------

/// Where the rank, a lower one, can be called.
Result<std::vector<ListenAddress>> MeshBuilder::doors_of(int rank) const {
    auto doors = ways_to(rank);
    if (doors.empty()) {
        std::vector<std::string> offered;
        for (const auto& endpoint : records_[static_cast<std::size_t>(rank)].endpoints) {
            offered.push_back(to_string(endpoint));
        }
        return Error{Errc::unavailable, describe(rank) + " has no address that host " +
                                            options_.host + " could reach, only " +
                                            join(offered, ", ") +
                                            "; see HOROVOD_NETWORK_INTERFACES"};
    }
    return doors;
}

Status MeshBuilder::call(int rank, Purpose purpose) {
    HVD_TRY(auto doors, doors_of(rank));
    maker_->call(rank, purpose, std::move(doors), kRounds);
    return ok();
}

Status MeshBuilder::connect_rest() {
    // A scout has called rank 0 already.
    if (options_.rank != 0 && !is_scout()) {
        HVD_TRY_STATUS(call(0, Purpose::control));
    }
    return connect_awaited();
}

Status MeshBuilder::connect_awaited() {
    while (!is_complete()) {
        if (broken_) {
            return *broken_;
        }
        if (deadline_.has_passed()) {
            return missing();
        }
        (void)reactor_->wait(deadline_);
        reactor_->dispatch();
    }
    return ok();
}

UniqueFd& MeshBuilder::socket(int rank, Purpose purpose) {
    return sockets_[static_cast<std::size_t>(rank)].at(static_cast<std::size_t>(purpose));
}
const UniqueFd& MeshBuilder::socket(int rank, Purpose purpose) const {
    return sockets_[static_cast<std::size_t>(rank)].at(static_cast<std::size_t>(purpose));
}

/// Rank 0 has a link with everybody; the others only try whether they could have one.
Purpose MeshBuilder::purpose_with(int rank) const {
    return rank == 0 || options_.rank == 0 ? Purpose::control : Purpose::probe;
}

/// Whether a link with that rank must come before this part of the meeting is over.
bool MeshBuilder::is_awaited(int rank) const {
    if (rank == options_.rank || socket(rank, purpose_with(rank))) {
        return false;
    }
    return is_scouting_ ? scouts_[static_cast<std::size_t>(rank)] == rank
                        : purpose_with(rank) == Purpose::control;
}

bool MeshBuilder::is_complete() const {
    for (int rank = 0; rank < options_.size; ++rank) {
        if (is_awaited(rank)) {
            return false;
        }
    }
    return true;
}

/// Who comes again has given up the connection before, but for data, which may be on its way.
bool MeshBuilder::admits(int rank, Purpose purpose) const {
    return rank > options_.rank && rank < options_.size &&
           (purpose != Purpose::data || !socket(rank, purpose));
}

void MeshBuilder::on_made(ConnectionMaker::Made made) {
    socket(made.rank, made.purpose) = std::move(made.socket);
    if (made.is_called) {
        used_[static_cast<std::size_t>(made.rank)] =
            to_string(made.at) + " (" + made.at.at.interface + ")";
    }
}

void MeshBuilder::on_refused(int rank, const ConnectionMaker::Refusal& refusal) {
    broken_ = Error{Errc::unavailable, describe(rank) + " cannot be reached from rank " +
                                           std::to_string(options_.rank) + " on host " +
                                           options_.host + ": " + refusal.reasons +
                                           (refusal.nobody_listens ? kHasLeft : kRemedy)};
}

Error MeshBuilder::missing() const {
    std::vector<std::string> parts;
    for (int rank = 0; rank < options_.size; ++rank) {
        if (is_awaited(rank)) {
            const auto attempts = maker_->attempts_at(rank);
            parts.push_back(describe(rank) + (attempts.empty() ? "" : " (" + attempts + ")"));
        }
    }
    return {Errc::timed_out, "rank " + std::to_string(options_.rank) + " on host " + options_.host +
                                 " has no connection with " + join(parts, ", ") + kRemedy};
}

}  // namespace hvd::coll::net
