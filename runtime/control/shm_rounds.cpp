// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/shm_rounds.hpp"

#include "collectives/transport/shm/cache_lines.hpp"

#include <cstring>
#include <utility>

namespace hvd::rt {
namespace {

// A slot's tag: the round, and in the lowest bit whether it is a proposal.
constexpr std::uint64_t proposal_tag(std::uint64_t round) noexcept {
    return (round << 1) | 1;
}
constexpr std::uint64_t refusal_tag(std::uint64_t round) noexcept {
    return round << 1;
}

constexpr bool fits_slot(std::size_t payload_bytes) noexcept {
    return payload_bytes <= Payload::kMostBytes;
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

ShmRounds::ShmRounds(coll::LocalGroup& group, std::span<RankPage> pages)
    : group_(group),
      pages_(pages),
      rank_(group.rank()),
      kept_(static_cast<std::size_t>(group.size())),
      payloads_(static_cast<std::size_t>(group.size())) {}

void ShmRounds::publish(std::uint64_t tag, std::uint64_t fingerprint, std::size_t payload_bytes) {
    auto& own = slot_of(rank_);
    own.fingerprint.store(fingerprint, std::memory_order_relaxed);
    own.is_asleep.store(0, std::memory_order_relaxed);
    own.payload_bytes.store(static_cast<std::uint32_t>(payload_bytes), std::memory_order_relaxed);
    if (fits_slot(payload_bytes)) {
        const auto& kept = kept_[static_cast<std::size_t>(rank_)];
        for (std::size_t word = 0; word < Payload::words_for(payload_bytes); ++word) {
            own.payload[word].store(kept.words[word], std::memory_order_relaxed);
        }
    }
    own.tag.store(tag, std::memory_order_release);
    has_published_ = true;
    // A proposer that sleeps waits for exactly this. Either it sees this slot when it looks for the
    // last time, or this rank sees that it sleeps.
    shared_fence();
    for (int peer = 0; peer < group_.size(); ++peer) {
        const auto& theirs = slot_of(peer);
        if (peer != rank_ && theirs.tag.load(std::memory_order_acquire) == proposal_tag(round_) &&
            theirs.is_asleep.load(std::memory_order_relaxed) != 0) {
            group_.notify(peer);
        }
    }
}

void ShmRounds::refuse() {
    if (!has_published_) {
        publish(refusal_tag(round_), 0, 0);
    }
}

bool ShmRounds::propose(std::span<const std::uint32_t> ids,
                        std::span<const std::byte> payload,
                        OwnPart own) {
    if (has_published_) {
        return false;
    }
    for (int peer = 0; peer < group_.size(); ++peer) {
        if (peer != rank_ &&
            slot_of(peer).tag.load(std::memory_order_acquire) == refusal_tag(round_)) {
            return false;
        }
    }
    proposed_ = fingerprint_of(ids);
    is_proposing_ = true;
    if (fits_slot(payload.size())) {
        kept_[static_cast<std::size_t>(rank_)].assign(payload);
    } else {
        auto* const to = long_payload_of(rank_);
        const auto after = payload.subspan(own.end);
        std::memcpy(to, payload.data(), own.begin);
        std::memcpy(to + own.end, after.data(), after.size());
        long_bytes_ = payload.size();
    }
    publish(proposal_tag(round_), proposed_, payload.size());
    return true;
}

/// The next payload will be about as long as the last one, and every other rank has read the bytes
/// that it replaces: see the class.
void ShmRounds::take_payload_lines() noexcept {
    coll::take_lines(long_payload_of(rank_), std::exchange(long_bytes_, 0));
}

Proposal ShmRounds::outcome() {
    bool have_all = true;
    for (int peer = 0; peer < group_.size(); ++peer) {
        if (peer == rank_) {
            continue;
        }
        const auto& slot = slot_of(peer);
        const auto tag = slot.tag.load(std::memory_order_acquire);
        if (tag == refusal_tag(round_) ||
            (tag == proposal_tag(round_) &&
             slot.fingerprint.load(std::memory_order_relaxed) != proposed_)) {
            is_proposing_ = false;
            return Proposal::refused;
        }
        have_all = have_all && tag == proposal_tag(round_);
    }
    if (!have_all) {
        return Proposal::waiting;
    }
    find_payloads();
    begin_next();
    return Proposal::accepted;
}

/// Those in the slots are copied; the others stay where they are.
void ShmRounds::find_payloads() noexcept {
    for (int rank = 0; rank < group_.size(); ++rank) {
        const auto& slot = slot_of(rank);
        auto& kept = kept_[static_cast<std::size_t>(rank)];
        const auto bytes = slot.payload_bytes.load(std::memory_order_relaxed);
        const bool is_in_slot = fits_slot(bytes);
        payloads_[static_cast<std::size_t>(rank)] =
            is_in_slot ? kept.data() : long_payload_of(rank);
        if (rank == rank_ || !is_in_slot) {
            continue;
        }
        for (std::size_t word = 0; word < Payload::words_for(bytes); ++word) {
            kept.words[word] = slot.payload[word].load(std::memory_order_relaxed);
        }
    }
}

std::vector<int> ShmRounds::missing() const {
    std::vector<int> ranks;
    for (int peer = 0; peer < group_.size(); ++peer) {
        const auto tag = slot_of(peer).tag.load(std::memory_order_acquire);
        if (peer != rank_ && tag != proposal_tag(round_) && tag != refusal_tag(round_)) {
            ranks.push_back(peer);
        }
    }
    return ranks;
}

void ShmRounds::begin_next() noexcept {
    is_proposing_ = false;
    has_published_ = false;
    ++round_;
}

void ShmRounds::about_to_sleep() {
    if (!is_proposing_) {
        return;
    }
    // Looked at here and not in `outcome`, where each load counts. A rank that comes while others
    // are missing wakes this one, which sleeps again if it must.
    const auto absent = missing();
    awaited_ = absent.empty() ? awaited_ : absent.back();
    mark_asleep(1);
}

void ShmRounds::mark_asleep(std::uint32_t asleep) noexcept {
    if (is_proposing_) {
        slot_of(rank_).is_asleep.store(asleep, std::memory_order_relaxed);
    }
}

}  // namespace hvd::rt
