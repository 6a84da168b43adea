// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/shm_channel.hpp"

#include <algorithm>
#include <new>
#include <numeric>
#include <utility>

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>

namespace hvd::rt {
namespace {

SharedControl& control_of(const coll::LocalGroup& group, std::size_t segment) {
    return *std::launder(reinterpret_cast<SharedControl*>(group.segment(segment).data()));
}

std::span<RankPage> pages_of(const coll::LocalGroup& group, std::size_t segment) {
    return {std::launder(
                reinterpret_cast<RankPage*>(group.segment(segment).data() + sizeof(SharedControl))),
            static_cast<std::size_t>(group.size())};
}

}  // namespace

std::size_t ShmChannel::segment_bytes(int ranks) {
    return sizeof(SharedControl) + sizeof(RankPage) * static_cast<std::size_t>(ranks);
}

ShmChannel::ShmChannel(coll::LocalGroup& group, std::size_t segment, std::string host)
    : group_(group),
      host_(std::move(host)),
      rank_(group.rank()),
      size_(group.size()),
      shared_(control_of(group, segment)),
      pages_(pages_of(group, segment)),
      rounds_(group, pages_),
      log_(group, shared_.log, pages_),
      mailboxes_(group, pages_),
      sleep_(group),
      is_forgiven_(static_cast<std::size_t>(size_)) {
    world_.ranks.resize(static_cast<std::size_t>(size_));
    std::iota(world_.ranks.begin(), world_.ranks.end(), 0);
    world_.place = rank_;
    auto& own = page(rank_);
    if (sched_getaffinity(0, sizeof own.cpus, &own.cpus) == 0) {
        own.has_cpus.store(1, std::memory_order_release);
    }
}

void ShmChannel::add_set(const coll::ProcessSet& set) {
    sets_.insert_or_assign(set.id, set);
}

void ShmChannel::remove_set(int id) {
    sets_.erase(id);
}

// ---- rounds -------------------------------------------------------------------------------------

bool ShmChannel::propose(std::span<const std::uint32_t> ids,
                         std::span<const std::byte> payload,
                         OwnPart own) {
    return rounds_.propose(ids, payload, own);
}

Proposal ShmChannel::proposal() {
    return rounds_.outcome();
}

void ShmChannel::refuse_round() {
    rounds_.refuse();
}

void ShmChannel::next_round() {
    rounds_.begin_next();
}

// ---- the log ------------------------------------------------------------------------------------

bool ShmChannel::set_ready(std::span<const std::uint32_t> ids, const coll::ProcessSet& set) {
    batch_.clear();
    const LogWord::Kind kind = LogWord::Kind::ready;
    for (const auto id : ids) {
        auto& count = shared_.ready_counts[id];
        if (count.fetch_add(1, std::memory_order_acq_rel) + 1 ==
            static_cast<std::uint32_t>(set.size())) {
            // No member counts it again before the log says that it is ready.
            count.store(0, std::memory_order_relaxed);
            batch_.push_back(
                LogWord{.kind = kind, .more = true, .of_world = set.id == 0, .number = id}.bits());
        }
    }
    for (std::size_t from = 0; from < batch_.size(); from += ShmLog::kLongestBatch) {
        const auto count = std::min(ShmLog::kLongestBatch, batch_.size() - from);
        const auto part = std::span(batch_).subspan(from, count);
        auto last = LogWord::from(part.back());
        last.more = false;
        part.back() = last.bits();
        if (outgoing_.empty() && log_.append(part, set)) {
            continue;
        }
        outgoing_.push_back({.entries = {part.begin(), part.end()}, .readers = set, .message = {}});
    }
    return batch_.size() == ids.size();
}

void ShmChannel::append_decision(const coll::ProcessSet& set,
                                 std::vector<std::byte> message,
                                 std::uint32_t id,
                                 bool more) {
    const LogWord word{.kind = LogWord::Kind::decision,
                       .more = more,
                       .number = static_cast<std::uint32_t>(set.id)};
    append({.entries = {word.bits()}, .readers = set, .new_id = id, .message = std::move(message)});
}

void ShmChannel::append_invalidation(const coll::ProcessSet& set, std::uint32_t id) {
    const LogWord word{.kind = LogWord::Kind::invalidation, .number = id};
    append({.entries = {word.bits()}, .readers = set, .message = {}});
}

void ShmChannel::announce_leave() {
    const LogWord word{.kind = LogWord::Kind::left, .number = static_cast<std::uint32_t>(rank_)};
    append({.entries = {word.bits()}, .readers = world_, .message = {}});
}

void ShmChannel::append(Outgoing outgoing) {
    outgoing_.push_back(std::move(outgoing));
    (void)flush_log();
}

bool ShmChannel::flush_log() {
    bool has_moved = false;
    while (!outgoing_.empty()) {
        auto& next = outgoing_.front();
        if (!next.message.empty()) {
            mailboxes_.send_decision(next.readers, std::exchange(next.message, {}));
        }
        if (next.new_id != kNoNewId) {
            // A retired id may have been set ready by some ranks only. Room in the log means that
            // all have read of its end.
            if (!log_.has_room_for_one()) {
                break;
            }
            shared_.ready_counts[next.new_id].store(0, std::memory_order_relaxed);
            next.new_id = kNoNewId;
        }
        if (!log_.append(next.entries, next.readers)) {
            break;
        }
        outgoing_.pop_front();
        has_moved = true;
    }
    return has_moved;
}

Result<std::optional<ChannelEvent>> ShmChannel::poll() {
    while (true) {
        if (deciding_) {
            HVD_TRY(auto message, mailboxes_.next_decision());
            if (!message) {
                return std::optional<ChannelEvent>{};
            }
            const auto word = *std::exchange(deciding_, std::nullopt);
            return std::optional<ChannelEvent>(
                event::Decided{.process_set = static_cast<int>(word.number),
                               .message = *std::move(message),
                               .more = word.more});
        }
        const auto word = log_.read();
        if (!word) {
            return std::optional<ChannelEvent>{};
        }
        if (auto event = event_of(*word)) {
            return event;
        }
    }
}

/// Nothing where the entry is not for this rank, or does not come alone.
std::optional<ChannelEvent> ShmChannel::event_of(const LogWord& word) {
    switch (word.kind) {
        case LogWord::Kind::decision: {
            const auto set = sets_.find(static_cast<int>(word.number));
            const bool is_member =
                word.number == 0 || (set != sets_.end() && set->second.is_member());
            if (is_member) {
                deciding_ = word;
            }
            return std::nullopt;
        }
        case LogWord::Kind::invalidation: return event::Invalidated{word.number};
        case LogWord::Kind::left: return event::Left{static_cast<int>(word.number)};
        case LogWord::Kind::ready: break;
    }
    ready_.push_back(word.number);
    if (word.more) {
        return std::nullopt;
    }
    return event::Ready{
        .ids = std::exchange(ready_, {}), .of_world = word.of_world, .last_rank = word.writer};
}

// ---- messages -----------------------------------------------------------------------------------

void ShmChannel::announce(std::vector<std::byte> message) {
    mailboxes_.send_announcement(std::move(message));
}

bool ShmChannel::flush() {
    const bool has_appended = !outgoing_.empty() && flush_log();
    return mailboxes_.flush() || has_appended;
}

Result<std::optional<Channel::Heard>> ShmChannel::next_announcement() {
    return mailboxes_.next_announcement();
}

// ---- sleeping -----------------------------------------------------------------------------------

void ShmChannel::watch(coll::Reactor& reactor) {
    sleep_.watch(reactor);
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) {
            continue;
        }
        const int pidfd = group_.peer_pidfd(peer);
        reactor.watch(pidfd, EPOLLIN, [this, &reactor, pidfd](std::uint32_t) {
            reactor.forget(pidfd);  // it stays readable
            (void)find_dead();
        });
    }
}

void ShmChannel::about_to_sleep(bool expects) {
    rounds_.prepare_next();
    // A rank that expects nothing need not be woken, and saves itself and its peers two trips of
    // the line in which sleepers are noted.
    const bool has_waiting_output = has_output();
    if (!expects && !has_waiting_output) {
        return;
    }
    rounds_.about_to_sleep();
    sleep_.announce();
    if (has_waiting_output) {
        (void)flush();  // room that was made before caused no wake-up
    }
}

void ShmChannel::awake() {
    if (sleep_.end()) {
        rounds_.awake();
    }
}

// ---- ends ---------------------------------------------------------------------------------------

std::string ShmChannel::describe(int rank) const {
    return "rank " + std::to_string(rank) + " (pid " + std::to_string(group_.pid(rank)) +
           " on host " + host_ + ")";
}

std::optional<Channel::PeerFailure> ShmChannel::find_dead() {
    for (int peer = 0; peer < size_ && !failure_; ++peer) {
        if (peer == rank_) {
            continue;
        }
        pollfd ended{.fd = group_.peer_pidfd(peer), .events = POLLIN, .revents = 0};
        if (::poll(&ended, 1, 0) == 1 && (ended.revents & POLLIN) != 0 &&
            page(peer).left.load(std::memory_order_acquire) == 0) {
            failure_ = PeerFailure{.peer = peer,
                                   .error = {Errc::unavailable, describe(peer) + " has died"},
                                   .in_flight = true};
        }
    }
    return failure_;
}

std::optional<Channel::PeerFailure> ShmChannel::peer_failure() {
    if (failure_) {
        return failure_;
    }
    // The first to leave is the cause; the others may have left because of it.
    int first = -1;
    std::uint32_t order = 0;
    bool all_finished = true;
    for (int peer = 0; peer < size_; ++peer) {
        const auto word = page(peer).left.load(std::memory_order_acquire);
        if (peer == rank_ || word == 0 || is_forgiven_[static_cast<std::size_t>(peer)]) {
            continue;
        }
        const auto departure = Departure::from(word);
        all_finished = all_finished && departure.finished;
        if (first < 0 || departure.order < order) {
            first = peer;
            order = departure.order;
        }
    }
    if (first < 0) {
        return std::nullopt;
    }
    // A rank that left may be the victim of one that has died.
    if (auto dead = find_dead()) {
        return dead;
    }
    const bool is_coming =
        page(0).left.load(std::memory_order_acquire) == 0 || mailboxes_.has_decision_bytes();
    if (deciding_ && is_coming) {
        return std::nullopt;  // what was agreed before is still on its way from the coordinator
    }
    return PeerFailure{.peer = first,
                       .error = {Errc::aborted, describe(first) + " has shut down"},
                       .in_flight = !all_finished};
}

void ShmChannel::forgive_departure(int rank) {
    is_forgiven_[static_cast<std::size_t>(rank)] = true;
}

bool ShmChannel::has_left_unfinished(int rank) const {
    const auto word = page(rank).left.load(std::memory_order_acquire);
    return word != 0 && !Departure::from(word).finished;
}

bool ShmChannel::has_unsent() const {
    for (int peer = 0; peer < size_; ++peer) {
        if (mailboxes_.has_output_for(peer) &&
            page(peer).left.load(std::memory_order_acquire) == 0) {
            return true;
        }
    }
    return false;
}

void ShmChannel::leave(bool finished) {
    const Departure departure{
        .finished = finished,
        .order = shared_.departures.fetch_add(1, std::memory_order_acq_rel) + 1};
    page(rank_).left.store(departure.word(), std::memory_order_release);
    group_.notify_others();
}

bool ShmChannel::is_oversubscribed() {
    if (is_oversubscribed_) {
        return *is_oversubscribed_;
    }
    cpu_set_t all;
    CPU_ZERO(&all);
    for (const auto& other : pages_) {
        if (other.has_cpus.load(std::memory_order_acquire) == 0) {
            return true;  // not known yet: yield rather than spin
        }
        CPU_OR(&all, &all, &other.cpus);
    }
    is_oversubscribed_ = CPU_COUNT(&all) < size_;
    return *is_oversubscribed_;
}

}  // namespace hvd::rt
