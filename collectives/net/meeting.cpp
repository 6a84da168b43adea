// SPDX-License-Identifier: Apache-2.0
#include "collectives/net/meeting.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::coll::net {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSpareTalks = 64;  // of strangers, beside those of the ranks

template <std::size_t kSize>
Status fill_random(std::array<std::byte, kSize>& bytes) {
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        return system_error("getrandom", errno);
    }
    return ok();
}

/// What only those have in common who see the same loopback interface.
std::string network_identity() {
    const auto boot = read_file("/proc/sys/kernel/random/boot_id", 64);
    struct stat name {};
    if (!boot || ::stat("/proc/self/ns/net", &name) != 0) {
        return {};
    }
    return std::string(trim(*boot)) + "/" + std::to_string(name.st_ino);
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::meet(Store& store,
                                         const MeshOptions& options,
                                         Deadline deadline) {
    Meeting meeting(options, deadline);
    return meeting.run(store);
}

Meeting::Meeting(const MeshOptions& options, Deadline deadline)
    : options_(options),
      deadline_(deadline),
      sockets_(static_cast<std::size_t>(options.size)),
      used_(static_cast<std::size_t>(options.size)) {}

Result<std::unique_ptr<Mesh>> Meeting::run(Store& store) {
    HVD_TRY(auto all, host_addresses());
    HVD_TRY(addresses_, allowed_addresses(std::move(all), options_.interfaces));
    HVD_TRY_STATUS(open_listeners());
    HVD_TRY_STATUS(exchange_key(store));
    HVD_TRY_STATUS(exchange_records(store));
    HVD_TRY_STATUS(find_ways(store));
    HVD_TRY_STATUS(connect_rest());
    std::vector<Mesh::Peer> peers(sockets_.size());
    for (std::size_t rank = 0; rank < peers.size(); ++rank) {
        auto& lanes = sockets_[rank];
        peers[rank].identity = {static_cast<int>(rank), records_[rank].pid, records_[rank].host};
        peers[rank].address = used_[rank];
        peers[rank].control = Link(std::move(lanes.at(static_cast<std::size_t>(Lane::control))));
        peers[rank].data = Link(std::move(lanes.at(static_cast<std::size_t>(Lane::data))));
    }
    return std::unique_ptr<Mesh>(new Mesh(options_.rank, std::move(peers), host_ways()));
}

// ---- what the store is for ----------------------------------------------------------------------

Status Meeting::open_listeners() {
    own_ = {.host = options_.host,
            .pid = static_cast<std::int32_t>(::getpid()),
            .network = network_identity(),
            .endpoints = {},
            .home = options_.home.empty() ? options_.host : options_.home};
    if (options_.rank == options_.size - 1) {
        return ok();  // nobody connects to the last one
    }
    for (const auto& address : addresses_) {
        HVD_TRY(auto listener, listen_at(address, options_.ports, options_.rank));
        own_.endpoints.push_back(listener.endpoint);
        listeners_.push_back(std::move(listener));
        const int socket = listeners_.back().socket.get();
        reactor_.watch(socket, EPOLLIN, [this, socket](std::uint32_t) { accept_from(socket); });
    }
    return ok();
}

Status Meeting::exchange_key(Store& store) {
    const auto name = options_.prefix + "key";
    if (options_.rank == 0) {
        HVD_TRY_STATUS(fill_random(key_));
        return store.put(name, key_);
    }
    HVD_TRY(const auto key, store.get(name, deadline_));
    if (key.size() != key_.size()) {
        return Error{Errc::internal, "the job's key in the store has a wrong length"};
    }
    std::ranges::copy(key, key_.begin());
    return ok();
}

Status Meeting::exchange_records(Store& store) {
    const auto name = [&](int rank) { return options_.prefix + "rank/" + std::to_string(rank); };
    HVD_TRY_STATUS(store.put(name(options_.rank), encode(own_)));
    for (int rank = 0; rank < options_.size; ++rank) {
        if (rank == options_.rank) {
            records_.push_back(own_);
            continue;
        }
        auto bytes = store.get(name(rank), deadline_);
        if (!bytes) {
            return std::move(bytes).error().context("rank " + std::to_string(rank) +
                                                    " has not come");
        }
        HVD_TRY(auto record, decode_rank_record(*bytes));
        records_.push_back(std::move(record));
    }
    scouts_ = scouts_of(records_);
    return ok();
}

Status Meeting::plan_call(int rank) {
    Call call{.peer = rank, .candidates = ways_to(rank)};
    if (call.candidates.empty()) {
        std::vector<std::string> offered;
        for (const auto& endpoint : records_[static_cast<std::size_t>(rank)].endpoints) {
            offered.push_back(to_string(endpoint));
        }
        return Error{Errc::unavailable, describe(rank) + " has no address that host " +
                                            options_.host + " could reach, only " +
                                            join(offered, ", ") +
                                            "; see HOROVOD_NETWORK_INTERFACES"};
    }
    calls_.push_back(std::move(call));
    return ok();
}

LinkIdentity Meeting::self() const {
    return {.rank = options_.rank, .pid = own_.pid, .host = options_.host};
}

std::string Meeting::describe(int rank) const {
    const auto& record = records_[static_cast<std::size_t>(rank)];
    return "rank " + std::to_string(rank) + " (pid " + std::to_string(record.pid) + " on host " +
           record.host + ")";
}

// ---- the loop -----------------------------------------------------------------------------------

Status Meeting::connect_rest() {
    for (int rank = 0; rank < options_.rank; ++rank) {
        const bool is_called_already =
            is_scout() && scouts_[static_cast<std::size_t>(rank)] == rank;
        if (!is_called_already) {
            HVD_TRY_STATUS(plan_call(rank));
        }
    }
    HVD_TRY_STATUS(connect_awaited());
    for (const auto& talk : talks_) {
        reactor_.forget(talk->conversation.descriptor());
    }
    talks_.clear();
    for (const auto& listener : listeners_) {
        reactor_.forget(listener.socket.get());
    }
    listeners_.clear();
    return ok();
}

Status Meeting::connect_awaited() {
    while (!is_complete()) {
        const auto now = Clock::now();
        expire(now);
        start_attempts(now);
        if (broken_) {
            return *broken_;
        }
        if (deadline_.has_passed()) {
            return missing();
        }
        (void)reactor_.wait(Deadline(next_event()));
        reactor_.dispatch();
        std::erase_if(talks_, [](const auto& talk) { return talk->is_over; });
    }
    return ok();
}

/// Whether a link with that rank must come before this part of the meeting is over.
bool Meeting::is_awaited(int rank) const {
    const auto& lanes = sockets_[static_cast<std::size_t>(rank)];
    if (rank == options_.rank) {
        return false;
    }
    if (is_scouting_) {
        return scouts_[static_cast<std::size_t>(rank)] == rank &&
               !lanes.at(static_cast<std::size_t>(Lane::control));
    }
    return !std::ranges::all_of(lanes, [](const UniqueFd& socket) { return bool(socket); });
}

bool Meeting::is_complete() const {
    for (int rank = 0; rank < options_.size; ++rank) {
        if (is_awaited(rank)) {
            return false;
        }
    }
    return true;
}

std::optional<Meeting::Clock::time_point> Meeting::next_event() const {
    auto next = deadline_.end();
    const auto consider = [&](std::optional<Clock::time_point> time) {
        if (time && (!next || *time < *next)) {
            next = time;
        }
    };
    for (const auto& talk : talks_) {
        consider(talk->conversation.limit().end());
    }
    for (const auto& call : calls_) {
        if (!call.is_over && call.next < call.candidates.size()) {
            consider(call.next_start);
        }
    }
    return next;
}

void Meeting::expire(Clock::time_point now) {
    for (const auto& talk : talks_) {
        if (!talk->is_over && talk->conversation.limit().end().value_or(now) <= now) {
            fail_attempt(*talk, "no answer in " + std::to_string(kAttemptLimit.count()) + " s");
        }
    }
    std::erase_if(talks_, [](const auto& talk) { return talk->is_over; });
}

Error Meeting::missing() const {
    std::vector<std::string> parts;
    for (int rank = 0; rank < options_.size; ++rank) {
        if (is_awaited(rank)) {
            parts.push_back(describe(rank) + attempts_at(rank));
        }
    }
    return {Errc::timed_out, "rank " + std::to_string(options_.rank) + " on host " + options_.host +
                                 " has no connection with " + join(parts, ", ") +
                                 ": a firewall, or see HOROVOD_NETWORK_INTERFACES and "
                                 "HOROVOD_PORT_RANGE"};
}

// ---- who connects to us -------------------------------------------------------------------------

void Meeting::accept_from(int listener) {
    while (true) {
        UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            if (errno == EMFILE || errno == ENFILE) {
                broken_ = system_error("cannot accept a connection (see `ulimit -n`)", errno);
            }
            return;  // nothing waits, or who waited has gone
        }
        if (talks_.size() >= sockets_.size() * kLanes + kSpareTalks) {
            // The oldest; a rank that is turned away so comes again.
            const auto oldest = std::ranges::find_if(
                talks_, [](const auto& talk) { return !talk->is_over && talk->call == kNoCall; });
            if (oldest != talks_.end()) {
                end(**oldest);
            }
        }
        Nonce nonce{};
        if (auto filled = fill_random(nonce); !filled) {
            broken_ = std::move(filled).error();
            return;
        }
        add_talk(Conversation(std::move(socket), Handshake::listening(key_, self(), nonce),
                              Deadline::in(kAttemptLimit)),
                 kNoCall, {});
    }
}

void Meeting::add_talk(Conversation conversation, std::size_t call, const Endpoint& endpoint) {
    talks_.push_back(std::make_unique<Talk>(
        Talk{.conversation = std::move(conversation), .call = call, .endpoint = endpoint}));
    Talk& talk = *talks_.back();
    reactor_.watch(talk.conversation.descriptor(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                   [this, &talk](std::uint32_t) { on_event(talk); });
}

void Meeting::on_event(Talk& talk) {
    if (talk.is_over) {
        return;
    }
    if (auto advanced = talk.conversation.advance(); !advanced) {
        fail_attempt(talk, advanced.error().message);
        return;
    }
    settle(talk);
}

void Meeting::settle(Talk& talk) {
    if (talk.call != kNoCall && talk.conversation.handshake().is_answered()) {
        choose(talk);
        return;
    }
    if (!talk.conversation.is_done()) {
        return;
    }
    if (talk.call != kNoCall) {
        finish_call(talk);
        return;
    }
    const int rank = talk.conversation.handshake().peer().rank;
    if (rank > options_.rank && rank < options_.size) {
        keep(talk);
    }
    end(talk);
}

/// Makes it a lane; who comes again has given up the connection before.
void Meeting::keep(Talk& talk) {
    const auto& handshake = talk.conversation.handshake();
    auto& lanes = sockets_[static_cast<std::size_t>(handshake.peer().rank)];
    reactor_.forget(talk.conversation.descriptor());
    lanes.at(static_cast<std::size_t>(handshake.lane())) = talk.conversation.take_socket();
    talk.is_over = true;
}

void Meeting::end(Talk& talk) {
    if (!talk.is_over) {
        reactor_.forget(talk.conversation.descriptor());
        (void)talk.conversation.take_socket();
        talk.is_over = true;
    }
}

}  // namespace hvd::coll::net
