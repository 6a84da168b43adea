// SPDX-License-Identifier: Apache-2.0
#include "collectives/shm/shm_endpoint.hpp"

#include "collectives/base/error.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace hvd::coll::shm {
namespace {

[[nodiscard]] constexpr std::size_t chunks_of(std::size_t bytes) noexcept {
    return (bytes + kChunkBytes - 1) / kChunkBytes;
}

}  // namespace

ShmEndpoint::ShmEndpoint(Arena& arena)
    : arena_(arena),
      table_bytes_((static_cast<std::size_t>(arena.size()) + 1) * sizeof(std::uint64_t)),
      outgoing_(static_cast<std::size_t>(arena.size())),
      incoming_(static_cast<std::size_t>(arena.size())),
      table_(static_cast<std::size_t>(arena.size()) + 1) {
    if (table_bytes_ > kChunkBytes) {
        throw Exception(Error{Errc::unsupported, "a set of " + std::to_string(arena.size()) +
                                                     " ranks of one host is too large"});
    }
}

void ShmEndpoint::send(int place, std::span<const std::byte> bytes) {
    outgoing_[static_cast<std::size_t>(place)].append(bytes.data(), bytes.size());
}

void ShmEndpoint::recv(int place, std::span<std::byte> bytes) {
    incoming_[static_cast<std::size_t>(place)].out.append(bytes.data(), bytes.size());
}

void ShmEndpoint::post() {
    base_ = arena_.sequences.gather;
    filled_ = 0;
    drained_ = 0;
    chunks_ = 1;
    stream_ = {};
    stream_.append(reinterpret_cast<const std::byte*>(table_.data()), table_bytes_);
    // The next place's message first, so that not all read from the same member at the same time.
    for (int step = 1; step < size(); ++step) {
        const auto to = static_cast<std::size_t>((place() + step) % size());
        table_[to] = stream_.bytes();
        stream_.append(outgoing_[to]);
    }
    table_.back() = stream_.bytes();
}

Result<bool> ShmEndpoint::wait() {
    if (arena_.cause) {
        return Error(*arena_.cause);
    }
    arena_.take_steps([this] { return step(); });
    arena_.notify_if_owed();
    if (drained_ < chunks_ || filled_ < chunks_of(stream_.bytes())) {
        return false;
    }
    arena_.sequences.gather = base_ + chunks_;
    for (auto& list : outgoing_) {
        list.clear();
    }
    for (auto& incoming : incoming_) {
        incoming.out.clear();
    }
    return true;
}

/// Does the most useful thing that can be done now. False: nothing can.
bool ShmEndpoint::step() {
    const bool owed = arena_.owes_notify();
    if (filled_ < chunks_of(stream_.bytes()) && filled_ <= drained_ + 1 && can_fill()) {
        fill();
    } else if (drained_ < chunks_ && can_drain()) {
        drain();
    } else {
        return false;
    }
    if (owed) {
        arena_.notify_if_owed();
    }
    return true;
}

/// The slot's last content, of this step or an earlier one, was drained by all.
bool ShmEndpoint::can_fill() const noexcept {
    const std::uint64_t next = base_ + filled_ + 1;
    return next <= kChunkSlots ||
           arena_.have_all(next - kChunkSlots,
                           [](RankArea& area) -> const Flag& { return area.gather_drained; });
}

void ShmEndpoint::fill() {
    const std::size_t begin = filled_ * kChunkBytes;
    auto* const to = arena_.own().gather[(base_ + filled_) % kChunkSlots].data();
    stream_.for_each(begin, std::min(begin + kChunkBytes, stream_.bytes()),
                     [&](const std::byte* memory, std::size_t bytes, std::size_t offset) {
                         std::memcpy(to + offset, memory, bytes);
                     });
    ++filled_;
    arena_.raise(arena_.own().gather_filled, base_ + filled_);
}

/// Whether every peer with bytes for this member in this chunk has filled it. The first chunk has a
/// table from every peer.
bool ShmEndpoint::can_drain() const noexcept {
    const std::size_t begin = drained_ * kChunkBytes;
    for (int peer = 0; peer < size(); ++peer) {
        const auto& incoming = incoming_[static_cast<std::size_t>(peer)];
        const bool is_needed =
            drained_ == 0 || (incoming.begin < begin + kChunkBytes && begin < incoming.end);
        if (peer != place() && is_needed &&
            arena_.area(peer).gather_filled.value.load(std::memory_order_acquire) <
                base_ + drained_ + 1) {
            return false;
        }
    }
    return true;
}

const std::byte* ShmEndpoint::slot(int place, std::size_t chunk) const noexcept {
    return arena_.area(place).gather[(base_ + chunk) % kChunkSlots].data();
}

void ShmEndpoint::read_tables() {
    chunks_ = chunks_of(stream_.bytes());
    for (int peer = 0; peer < size(); ++peer) {
        if (peer == place()) {
            continue;
        }
        auto& incoming = incoming_[static_cast<std::size_t>(peer)];
        const auto entry = [&](int index) {
            std::uint64_t value = 0;
            std::memcpy(&value, slot(peer, 0) + static_cast<std::size_t>(index) * sizeof value,
                        sizeof value);
            return value;
        };
        incoming.begin = entry(place());
        incoming.end = incoming.begin + incoming.out.bytes();
        incoming.chunks = chunks_of(entry(size()));
        chunks_ = std::max(chunks_, incoming.chunks);
    }
}

void ShmEndpoint::drain() {
    if (drained_ == 0) {
        read_tables();
    }
    const std::size_t chunk = drained_ * kChunkBytes;
    for (int step = 1; step < size(); ++step) {
        const int peer = (place() + size() - step) % size();
        const auto& incoming = incoming_[static_cast<std::size_t>(peer)];
        const auto begin = std::max(incoming.begin, chunk);
        const auto end = std::min(incoming.end, chunk + kChunkBytes);
        if (begin >= end) {
            continue;
        }
        const auto* const from = slot(peer, drained_) + (begin - chunk);
        incoming.out.for_each(begin - incoming.begin, end - incoming.begin,
                              [&](std::byte* memory, std::size_t bytes, std::size_t offset) {
                                  std::memcpy(memory, from + offset, bytes);
                              });
    }
    ++drained_;
    arena_.raise(arena_.own().gather_drained, base_ + drained_);
}

}  // namespace hvd::coll::shm
