// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/tcp_channel.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <sched.h>
#include <sys/epoll.h>

namespace hvd::rt {
namespace {

constexpr std::chrono::seconds kLeaveLimit{1};

template <class... Handlers>
struct Overloaded : Handlers... {
    using Handlers::operator()...;
};
template <class... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

event::Ready event_of(frame::Ready ready) {
    return {.ids = std::move(ready.ids), .of_world = ready.of_world, .last_rank = ready.last_rank};
}

bool has_fewer_cpus_than(int ranks) noexcept {
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) != 0 || CPU_COUNT(&cpus) < ranks;
}

}  // namespace

TcpChannel::TcpChannel(coll::net::Mesh& mesh,
                       int local_size,
                       coll::FailureDetector* detector,
                       coll::LocalGroup* group)
    : mesh_(mesh),
      rank_(mesh.rank()),
      size_(mesh.size()),
      is_oversubscribed_(has_fewer_cpus_than(local_size)),
      detector_(detector),
      connections_(
          mesh,
          [this](int peer, frame::Any message) { on_frame(peer, std::move(message)); },
          [this](int peer) { on_closed(peer); }),
      said_goodbye_(static_cast<std::size_t>(mesh.size())),
      is_forgiven_(static_cast<std::size_t>(mesh.size())) {
    if (group != nullptr) {
        group_sleep_.emplace(*group);
    }
}

// ---- what this rank sends -----------------------------------------------------------------------

void TcpChannel::announce(std::vector<std::byte> message) {
    if (coordinates()) {
        announcements_.push_back({.rank = 0, .message = std::move(message)});
    } else {
        connections_.send(0, frame::Announce{std::move(message)});
    }
}

bool TcpChannel::set_ready(std::span<const std::uint32_t> ids, const coll::ProcessSet& /*set*/) {
    if (coordinates()) {
        count(rank_, ids, last_read_);
    } else {
        connections_.send(0, frame::SetReady{.last = last_read_, .ids = {ids.begin(), ids.end()}});
    }
    return false;
}

void TcpChannel::announce_leave() {
    if (coordinates()) {
        append_left(0);
    } else {
        connections_.send(0, frame::AnnounceLeave{});
    }
}

// A round of all ranks would cost no fewer trips than the ready bits do.
bool TcpChannel::propose(std::span<const std::uint32_t> /*ids*/,
                         std::span<const std::byte> /*payload*/,
                         OwnPart /*own*/) {
    return false;
}
Proposal TcpChannel::proposal() {
    return Proposal::refused;
}

// ---- the log ------------------------------------------------------------------------------------

Result<std::optional<ChannelEvent>> TcpChannel::poll() {
    if (connections_.broken()) {
        return *connections_.broken();
    }
    if (entries_.empty()) {
        return std::optional<ChannelEvent>{};
    }
    last_read_ = entries_.front().number;
    std::optional<ChannelEvent> event = std::move(entries_.front().event);
    entries_.pop_front();
    return event;
}

Result<std::optional<Channel::Heard>> TcpChannel::next_announcement() {
    if (announcements_.empty()) {
        return std::optional<Heard>{};
    }
    std::optional<Heard> heard = std::move(announcements_.front());
    announcements_.pop_front();
    return heard;
}

void TcpChannel::send_to(const coll::ProcessSet& readers, const frame::Any& message) {
    for (const int rank : readers.ranks) {
        if (rank != rank_) {
            connections_.send(rank, message);
        }
    }
}

void TcpChannel::append_decision(const coll::ProcessSet& set,
                                 std::vector<std::byte> message,
                                 std::uint32_t id,
                                 bool more) {
    const auto number = ++appended_;
    sets_.insert_or_assign(set.id, set);
    if (id != ~std::uint32_t{0}) {
        if (id >= counts_.size()) {
            counts_.resize(id + std::size_t{1});
        }
        // A bit that was set before, or is by a rank that has not read this entry, meant another
        // group.
        counts_[id] = {.process_set = set.id, .bits = 0, .since = number};
    }
    frame::Decided decided{
        .number = number, .process_set = set.id, .more = more, .message = std::move(message)};
    send_to(set, decided);
    if (set.is_member()) {
        entries_.push_back({number, event::Decided{.process_set = set.id,
                                                   .message = std::move(decided.message),
                                                   .more = more}});
    }
}

void TcpChannel::append_invalidation(const coll::ProcessSet& set, std::uint32_t id) {
    const auto number = ++appended_;
    send_to(set, frame::Invalidated{.number = number, .id = id});
    entries_.push_back({number, event::Invalidated{id}});
}

void TcpChannel::append_left(int rank) {
    const auto number = ++appended_;
    connections_.send_to_all(frame::Left{.number = number, .rank = rank});
    entries_.push_back({number, event::Left{rank}});
}

/// Ready bits of a rank come a set at a time; the ids that they complete are one batch.
void TcpChannel::count(int rank, std::span<const std::uint32_t> ids, std::uint64_t last) {
    std::vector<std::uint32_t> ready;
    int set_id = 0;
    for (const auto id : ids) {
        if (id >= counts_.size() || last < counts_[id].since) {
            continue;
        }
        auto& count = counts_[id];
        set_id = count.process_set;
        const auto set = sets_.find(set_id);
        if (set != sets_.end() && ++count.bits == set->second.size()) {
            count.bits = 0;
            ready.push_back(id);
        }
    }
    if (!ready.empty()) {
        append_ready(set_id, rank, std::move(ready));
    }
}

void TcpChannel::append_ready(int set_id, int last_rank, std::vector<std::uint32_t> ids) {
    const auto number = ++appended_;
    frame::Ready ready{
        .number = number, .of_world = set_id == 0, .last_rank = last_rank, .ids = std::move(ids)};
    send_to(sets_.at(set_id), ready);
    entries_.push_back({number, event_of(std::move(ready))});
}

// ---- frames -------------------------------------------------------------------------------------

bool TcpChannel::flush() {
    mesh_.reactor().dispatch();
    return connections_.pump();
}

void TcpChannel::on_frame(int peer, frame::Any message) {
    std::visit(
        Overloaded{
            [&](frame::Announce& announce) {
                announcements_.push_back({.rank = peer, .message = std::move(announce.message)});
            },
            [&](const frame::SetReady& ready) { count(peer, ready.ids, ready.last); },
            [&](const frame::AnnounceLeave& /*leave*/) { append_left(peer); },
            [&](frame::Decided& decided) {
                receive(decided.number, event::Decided{.process_set = decided.process_set,
                                                       .message = std::move(decided.message),
                                                       .more = decided.more});
            },
            [&](const frame::Invalidated& invalidated) {
                receive(invalidated.number, event::Invalidated{invalidated.id});
            },
            [&](frame::Ready& ready) {
                const auto number = ready.number;
                receive(number, event_of(std::move(ready)));
            },
            [&](const frame::Left& left) { receive(left.number, event::Left{left.rank}); },
            [&](const frame::Goodbye& goodbye) { on_goodbye(peer, goodbye); },
            [&](const frame::Gone& gone) { note_departure(gone.rank, gone.finished); },
            [&](const frame::Lost& lost) {
                if (lost.rank != rank_) {
                    set_lost(lost.rank, {Errc::unavailable, lost.why});
                }
            },
        },
        message);
}

/// Entries come from the coordinator alone.
void TcpChannel::receive(std::uint64_t number, ChannelEvent event) {
    if (!coordinates()) {
        entries_.push_back({number, std::move(event)});
    }
}

// ---- sleeping -----------------------------------------------------------------------------------

void TcpChannel::watch(coll::Reactor& reactor) {
    outer_ = &reactor;
    if (group_sleep_) {
        group_sleep_->watch(reactor);
    }
    about_to_sleep(true);
    if (detector_ != nullptr) {
        reactor.watch(detector_->failure_descriptor(), EPOLLIN,
                      [this](std::uint32_t) { read_detector(); });
    }
}

// While a caller drives the engine it looks at the connections itself: nothing else is to be woken.
void TcpChannel::about_to_sleep(bool expects) {
    if (group_sleep_ && expects) {
        group_sleep_->announce();
    }
    if (outer_ != nullptr && !std::exchange(is_watched_, true)) {
        outer_->watch(mesh_.reactor().descriptor(), EPOLLIN,
                      [this](std::uint32_t) { (void)flush(); });
    }
}

void TcpChannel::awake() {
    if (group_sleep_) {
        (void)group_sleep_->end();
    }
    if (outer_ != nullptr && std::exchange(is_watched_, false)) {
        outer_->forget(mesh_.reactor().descriptor());
    }
}

// ---- ends ---------------------------------------------------------------------------------------

void TcpChannel::note_departure(int rank, bool finished) {
    if (rank == rank_ || said_goodbye_[static_cast<std::size_t>(rank)]) {
        return;
    }
    said_goodbye_[static_cast<std::size_t>(rank)] = true;
    departed_.push_back({.rank = rank, .finished = finished});
}

void TcpChannel::on_goodbye(int peer, const frame::Goodbye& goodbye) {
    note_departure(peer, goodbye.finished);
    if (goodbye.lost >= 0 && goodbye.lost != rank_) {
        // It leaves only because another rank is gone, which this rank may not have noticed yet.
        set_lost(goodbye.lost, {Errc::unavailable, goodbye.why});
    }
    if (coordinates()) {
        connections_.send_to_all(frame::Gone{.rank = peer, .finished = goodbye.finished});
    }
}

Error TcpChannel::death_of(int peer) const {
    return mesh_.end_of(peer, mesh_.peer(peer).control);
}

void TcpChannel::on_closed(int peer) {
    if (!said_goodbye_[static_cast<std::size_t>(peer)]) {
        set_lost(peer, death_of(peer));
    }
}

void TcpChannel::set_lost(int peer, Error error) {
    if (failure_) {
        return;
    }
    if (coordinates()) {
        connections_.send_to_all(frame::Lost{.rank = peer, .why = error.message});
    }
    failure_ = PeerFailure{.peer = peer, .error = std::move(error), .in_flight = true};
}

void TcpChannel::read_detector() {
    while (true) {
        const auto failure = detector_->next_failure();
        if (!failure) {
            // The detector is gone, and its descriptor would be readable for ever.
            outer_->forget(detector_->failure_descriptor());
            return;
        }
        if (!*failure) {
            return;
        }
        on_detected(**failure);
    }
}

void TcpChannel::on_detected(const coll::PeerFailure& failure) {
    if (failure.rank < 0 || failure.rank >= size_ || failure.rank == rank_) {
        return;
    }
    (void)flush();  // what the rank sent before its end counts, a goodbye most of all
    if (!said_goodbye_[static_cast<std::size_t>(failure.rank)]) {
        set_lost(failure.rank, {Errc::unavailable, failure.why});
        (void)connections_.pump();
    }
}

std::optional<Channel::PeerFailure> TcpChannel::peer_failure() {
    if (failure_) {
        return failure_;
    }
    // The first to leave is the cause; the others may have left because of it.
    const auto first = std::ranges::find_if(
        departed_, [this](const Departure& each) { return !is_forgiven(each); });
    if (first == departed_.end() || !entries_.empty()) {
        return std::nullopt;
    }
    const bool all_finished = std::ranges::all_of(
        departed_, [this](const Departure& each) { return each.finished || is_forgiven(each); });
    return PeerFailure{.peer = first->rank,
                       .error = {Errc::aborted, mesh_.describe(first->rank) + " has shut down"},
                       .in_flight = !all_finished};
}

bool TcpChannel::is_forgiven(const Departure& departure) const {
    return is_forgiven_[static_cast<std::size_t>(departure.rank)];
}

void TcpChannel::forgive_departure(int rank) {
    is_forgiven_[static_cast<std::size_t>(rank)] = true;
}

bool TcpChannel::has_left_unfinished(int rank) const {
    return std::ranges::any_of(
        departed_, [rank](const Departure& each) { return each.rank == rank && !each.finished; });
}

void TcpChannel::leave(bool finished) {
    connections_.send_to_all(
        frame::Goodbye{.finished = finished,
                       .lost = failure_ ? failure_->peer : -1,
                       .why = failure_ ? failure_->error.message : std::string()});
    connections_.drain(Deadline::in(kLeaveLimit));
}

}  // namespace hvd::rt
