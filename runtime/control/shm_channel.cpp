// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/shm_channel.hpp"

#include "collectives/base/assert.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

namespace hvd::rt {
namespace {

// A head's tag: the round, and in the lowest bit whether it is a proposal.
constexpr std::uint64_t proposal_tag(std::uint64_t round) noexcept {
    return (round << 1) | 1;
}
constexpr std::uint64_t background_tag(std::uint64_t round) noexcept {
    return round << 1;
}

// A log entry: in the upper half how often the ring had been filled, plus one, so that an entry of
// the last lap is not taken for a new one; below it kind, end of the batch and id.
using Kind = std::uint32_t;
constexpr Kind kDecision = 0;
constexpr Kind kInvalidation = 1;
constexpr Kind kReady = 2;
constexpr std::uint32_t kKindShift = 30;
constexpr std::uint32_t kMore = std::uint32_t{1} << 29;
constexpr std::uint32_t kIdMask = kMore - 1;

// Longer batches are cut: the log must be able to take one at once.
constexpr std::size_t kLongestBatch = kLogEntries / 4;

constexpr std::uint32_t entry(Kind kind, std::uint32_t id, bool more) noexcept {
    return (kind << kKindShift) | (more ? kMore : 0) | (id & kIdMask);
}

std::uint64_t lap_of(std::uint64_t position) noexcept {
    return (position / kLogEntries + 1) << 32;
}

/// Equal lists have equal fingerprints; a single id is its own.
std::uint64_t fingerprint_of(std::span<const std::uint32_t> ids) noexcept {
    if (ids.size() == 1) {
        return ids.front();
    }
    std::uint64_t hash = ids.size();
    for (const auto id : ids) {
        hash ^= id;
        hash *= 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
        hash ^= hash >> 29;
    }
    return hash | (std::uint64_t{1} << 63);
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
      shared_(*std::launder(reinterpret_cast<SharedControl*>(group.segment(segment).data()))),
      pages_(std::launder(reinterpret_cast<RankPage*>(group.segment(segment).data() +
                                                      sizeof(SharedControl))),
             static_cast<std::size_t>(size_)),
      announcements_(page(rank_).to_coordinator),
      decisions_(page(rank_).from_coordinator) {
    auto& own = page(rank_);
    if (sched_getaffinity(0, sizeof own.cpus, &own.cpus) == 0) {
        own.has_cpus.store(1, std::memory_order_release);
    }
    if (coordinates()) {
        for (auto& other : pages_) {
            heard_.emplace_back(other.to_coordinator);
            answers_.emplace_back(other.from_coordinator);
        }
    }
}

// ---- rounds -------------------------------------------------------------------------------------

void ShmChannel::speak(std::uint64_t tag, std::uint64_t fingerprint) {
    auto& head = page(rank_).heads[round_ & 1];
    head.fingerprint.store(fingerprint, std::memory_order_relaxed);
    head.asleep.store(0, std::memory_order_relaxed);
    head.tag.store(tag, std::memory_order_release);
    spoken_ = true;
    // A proposer who sleeps waits for exactly this. Either it sees our head when it looks for the
    // last time, or we see that it sleeps.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (int peer = 0; peer < size_; ++peer) {
        const auto& theirs = page(peer).heads[round_ & 1];
        if (peer != rank_ && theirs.tag.load(std::memory_order_acquire) == proposal_tag(round_) &&
            theirs.asleep.load(std::memory_order_relaxed) != 0) {
            group_.notify(peer);
        }
    }
}

void ShmChannel::publish_background() {
    if (!spoken_) {
        speak(background_tag(round_), 0);
    }
}

bool ShmChannel::propose(std::span<const std::uint32_t> ids) {
    if (spoken_) {
        return false;
    }
    for (int peer = 0; peer < size_; ++peer) {
        if (peer != rank_ && page(peer).heads[round_ & 1].tag.load(std::memory_order_acquire) ==
                                 background_tag(round_)) {
            return false;
        }
    }
    proposed_fingerprint_ = fingerprint_of(ids);
    proposed_ = true;
    speak(proposal_tag(round_), proposed_fingerprint_);
    return true;
}

Proposal ShmChannel::proposal() {
    bool all = true;
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) {
            continue;
        }
        const auto& head = page(peer).heads[round_ & 1];
        const auto tag = head.tag.load(std::memory_order_acquire);
        if (tag == background_tag(round_) ||
            (tag == proposal_tag(round_) &&
             head.fingerprint.load(std::memory_order_relaxed) != proposed_fingerprint_)) {
            proposed_ = false;
            return Proposal::refused;
        }
        all = all && tag == proposal_tag(round_);
    }
    if (!all) {
        return Proposal::waiting;
    }
    proposed_ = false;
    spoken_ = false;
    ++round_;
    return Proposal::accepted;
}

void ShmChannel::next_round(bool open) {
    ++round_;
    spoken_ = false;
    if (open) {
        publish_background();
    }
}

// ---- the log ------------------------------------------------------------------------------------

bool ShmChannel::has_room(std::uint64_t position, std::size_t count) {
    if (position + count - slowest_ <= kLogEntries) {
        return true;
    }
    slowest_ = position;
    for (const auto& other : pages_) {
        slowest_ = std::min(slowest_, other.consumed.load(std::memory_order_acquire));
    }
    return position + count - slowest_ <= kLogEntries;
}

/// Either who reads on sees that we starve, or we see the room it has made.
bool ShmChannel::finds_room(std::uint64_t position, std::size_t count) {
    if (has_room(position, count)) {
        return true;
    }
    shared_.log.starved.store(1, std::memory_order_seq_cst);
    return has_room(position, count);
}

bool ShmChannel::append(std::span<const std::uint32_t> entries) {
    auto& log = shared_.log;
    auto position = log.reserved.load(std::memory_order_relaxed);
    do {
        if (!finds_room(position, entries.size())) {
            return false;
        }
    } while (!log.reserved.compare_exchange_weak(position, position + entries.size(),
                                                 std::memory_order_acq_rel));
    for (const auto each : entries) {
        log.entries[position % kLogEntries].store(lap_of(position) | each,
                                                  std::memory_order_release);
        ++position;
    }
    group_.notify_others();
    return true;
}

void ShmChannel::mark(std::span<const std::uint32_t> ids, bool more_open) {
    completed_.clear();
    for (const auto id : ids) {
        auto& marks = shared_.marks[id];
        if (marks.fetch_add(1, std::memory_order_acq_rel) + 1 ==
            static_cast<std::uint32_t>(size_)) {
            // Nobody counts it again before the log says that it is ready.
            marks.store(0, std::memory_order_relaxed);
            completed_.push_back(entry(kReady, id, true));
        }
    }
    if (more_open || completed_.size() < ids.size()) {
        publish_background();
    }
    for (std::size_t from = 0; from < completed_.size(); from += kLongestBatch) {
        const auto count = std::min(kLongestBatch, completed_.size() - from);
        const auto batch = std::span(completed_).subspan(from, count);
        batch.back() &= ~kMore;
        late_ready_.emplace_back(batch.begin(), batch.end());
    }
    (void)flush_ready();
}

bool ShmChannel::flush_ready() {
    bool moved = false;
    while (!late_ready_.empty() && append(late_ready_.front())) {
        late_ready_.pop_front();
        moved = true;
    }
    return moved;
}

void ShmChannel::wake_starved() noexcept {
    if (!std::exchange(made_room_, false)) {
        return;
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (shared_.log.starved.load(std::memory_order_relaxed) != 0 &&
        shared_.log.starved.exchange(0, std::memory_order_acq_rel) != 0) {
        group_.notify_others();
    }
}

Result<std::optional<ChannelEvent>> ShmChannel::poll() {
    auto& log = shared_.log;
    while (true) {
        if (deciding_) {
            HVD_TRY(auto message, next_decision());
            if (!message) {
                return std::optional<ChannelEvent>{};
            }
            const bool more = (*std::exchange(deciding_, std::nullopt) & kMore) != 0;
            return std::optional<ChannelEvent>(event::Decided{*std::move(message), more});
        }
        const auto word = log.entries[position_ % kLogEntries].load(std::memory_order_acquire);
        if ((word & ~std::uint64_t{0xffffffff}) != lap_of(position_)) {
            wake_starved();
            return std::optional<ChannelEvent>{};
        }
        page(rank_).consumed.store(++position_, std::memory_order_release);
        made_room_ = true;
        const auto each = static_cast<std::uint32_t>(word);
        switch (each >> kKindShift) {
            case kDecision: deciding_ = each; break;
            case kInvalidation:
                return std::optional<ChannelEvent>(event::Invalidated{each & kIdMask});
            default:
                ready_.push_back(each & kIdMask);
                if ((each & kMore) == 0) {
                    return std::optional<ChannelEvent>(event::Ready{std::exchange(ready_, {})});
                }
        }
    }
}

// ---- the slow path ------------------------------------------------------------------------------

void ShmChannel::announce(std::vector<std::byte> message) {
    publish_background();
    if (coordinates()) {
        own_announcements_.push_back(std::move(message));
        return;
    }
    announcements_.put(message);  // sent by the next flush, many at once
}

bool ShmChannel::flush() {
    bool moved = false;
    if (!late_ready_.empty()) {
        moved = flush_ready();
    }
    if (coordinates()) {
        const bool wrote = !verdicts_.empty() ? flush_verdicts() : answers_wait_ && flush_answers();
        return wrote || moved;
    }
    if (announcements_.flush()) {
        group_.notify_always(0);  // who coordinates may expect nothing for itself
        moved = true;
    }
    return moved;
}

Result<std::optional<Channel::Heard>> ShmChannel::hear() {
    if (!own_announcements_.empty()) {
        auto message = std::move(own_announcements_.front());
        own_announcements_.pop_front();
        return std::optional(Heard{.rank = 0, .message = std::move(message)});
    }
    for (std::size_t tried = 0; tried < heard_.size(); ++tried) {
        const auto rank = next_heard_;
        next_heard_ = (next_heard_ + 1) % heard_.size();
        HVD_TRY(auto message, heard_[rank].next());
        if (heard_[rank].must_wake_writer()) {
            group_.notify(static_cast<int>(rank));
        }
        if (message) {
            return std::optional(
                Heard{.rank = static_cast<int>(rank), .message = *std::move(message)});
        }
    }
    return std::optional<Heard>{};
}

void ShmChannel::decide(std::vector<std::byte> message, std::uint32_t id, bool more) {
    verdicts_.push_back(
        {.entry = entry(kDecision, 0, more), .id = id, .message = std::move(message)});
    (void)flush_verdicts();
}

void ShmChannel::invalidate(std::uint32_t id) {
    verdicts_.push_back({.entry = entry(kInvalidation, id, false), .id = kNoShared, .message = {}});
    (void)flush_verdicts();
}

bool ShmChannel::flush_verdicts() {
    bool moved = false;
    while (!verdicts_.empty()) {
        auto& verdict = verdicts_.front();
        if (!verdict.sent && !verdict.message.empty()) {
            for (std::size_t rank = 1; rank < answers_.size(); ++rank) {
                answers_[rank].put(verdict.message);
            }
            own_decisions_.push_back(std::move(verdict.message));
            verdict.sent = true;
        }
        if (verdict.id != kNoShared) {
            // A retired id may have been marked by some ranks only. Room in the log means that all
            // have seen it retired.
            if (!finds_room(shared_.log.reserved.load(), 1)) {
                break;
            }
            shared_.marks[verdict.id].store(0, std::memory_order_relaxed);
        }
        if (!append({&verdict.entry, 1})) {
            break;
        }
        verdicts_.pop_front();
        moved = true;
    }
    return flush_answers() || moved;
}

/// A decision may be longer than the ring, and whoever reads it may sleep.
bool ShmChannel::flush_answers() {
    bool moved = false;
    answers_wait_ = false;
    for (std::size_t rank = 1; rank < answers_.size(); ++rank) {
        if (answers_[rank].flush()) {
            group_.notify(static_cast<int>(rank));
            moved = true;
        }
        answers_wait_ = answers_wait_ || answers_[rank].is_waiting();
    }
    return moved;
}

Result<std::optional<std::vector<std::byte>>> ShmChannel::next_decision() {
    if (coordinates()) {
        HVD_ASSERT(!own_decisions_.empty(), "the decision was put here before its log entry");
        auto message = std::move(own_decisions_.front());
        own_decisions_.pop_front();
        return std::optional(std::move(message));
    }
    auto message = decisions_.next();
    if (decisions_.must_wake_writer()) {
        group_.notify(0);
    }
    return message;
}

}  // namespace hvd::rt
