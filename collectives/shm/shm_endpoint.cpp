// SPDX-License-Identifier: Apache-2.0
#include "collectives/shm/shm_endpoint.hpp"

#include "collectives/base/error.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace hvd::coll::shm {
namespace {

// A stream's table has where each place's message begins, by place; then where the stream ends;
// then the fields of RemoteProcess.
constexpr std::size_t kAfterPlaces = 1 + sizeof(RemoteProcess) / sizeof(std::uint64_t);

constexpr std::uint64_t kIsDirect = std::uint64_t{1} << 63;  // of a message's begin

/// The entries of a table that fills whole lines: what follows it in the slot is aligned, since
/// copies by `rep movsb` to a place a few bytes further within its page than their source run at a
/// tenth of the speed on AMD's CPUs (glibc's bug 30994).
[[nodiscard]] constexpr std::size_t table_entries(int members) noexcept {
    constexpr std::size_t kInLine = kLineBytes / sizeof(std::uint64_t);
    const auto entries = static_cast<std::size_t>(members) + kAfterPlaces;
    return (entries + kInLine - 1) / kInLine * kInLine;
}

/// A message that is read directly is replaced by a list of its pieces, which ends with a piece
/// without bytes.
[[nodiscard]] constexpr std::size_t bytes_of_pieces(std::size_t count) noexcept {
    return (count + 1) * sizeof(RemotePiece);
}

[[nodiscard]] constexpr std::size_t chunks_of(std::size_t bytes) noexcept {
    return (bytes + kChunkBytes - 1) / kChunkBytes;
}

}  // namespace

ShmEndpoint::ShmEndpoint(Arena& arena)
    : arena_(arena),
      outgoing_(static_cast<std::size_t>(arena.size())),
      incoming_(static_cast<std::size_t>(arena.size())),
      table_(table_entries(arena.size())),
      pieces_(static_cast<std::size_t>(arena.size())),
      direct_(arena) {
    if (std::as_bytes(std::span(table_)).size() > kChunkBytes) {
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
    has_tables_ = false;
    sends_directly_ = false;
    stream_ = {};
    const auto table = std::as_bytes(std::span(table_));
    stream_.append(table.data(), table.size());
    // Pieces first, since the whole of them must lie in the first chunk.
    for (std::size_t to = 0; to < outgoing_.size(); ++to) {
        send_directly(to);
    }
    // The next place's message first, so that not all read from the same member at the same time.
    for (int step = 1; step < size(); ++step) {
        const auto to = static_cast<std::size_t>((place() + step) % size());
        if (pieces_[to].empty()) {
            table_[to] = stream_.bytes();
            stream_.append(outgoing_[to]);
        }
    }
    auto* const after = &table_[static_cast<std::size_t>(size())];
    after[0] = stream_.bytes();
    std::memcpy(after + 1, &direct_.own(), sizeof(RemoteProcess));
}

/// Where the message is large and its receiver can read it: says where it lies.
void ShmEndpoint::send_directly(std::size_t to) {
    auto& pieces = pieces_[to];
    const auto& message = outgoing_[to];
    pieces.clear();
    if (message.bytes() < DirectReads::kSmallest || !direct_.can_read(static_cast<int>(to))) {
        return;
    }
    message.for_each(0, message.bytes(),
                     [&](const std::byte* memory, std::size_t bytes, std::size_t) {
                         pieces.push_back({reinterpret_cast<std::uintptr_t>(memory), bytes});
                     });
    const auto bytes = bytes_of_pieces(pieces.size());
    if (pieces.size() > DirectReads::kMostPieces || stream_.bytes() + bytes > kChunkBytes) {
        pieces.clear();
        return;
    }
    pieces.emplace_back();
    table_[to] = stream_.bytes() | kIsDirect;
    stream_.append(reinterpret_cast<const std::byte*>(pieces.data()), bytes);
    sends_directly_ = true;
}

Result<bool> ShmEndpoint::wait() {
    if (arena_.cause) {
        return Error(*arena_.cause);
    }
    arena_.take_steps([this] { return step(); });
    arena_.notify_if_owed();
    if (failure_) {
        return Error(*failure_);
    }
    if (!has_ended()) {
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

/// The own messages lie in the slots, or have been read; those of the others have come.
bool ShmEndpoint::has_ended() const noexcept {
    return drained_ == chunks_ && filled_ == chunks_of(stream_.bytes()) &&
           (!sends_directly_ || arena_.have_all(base_ + chunks_, [](RankArea& area) -> const Flag& {
               return area.gather_drained;
           }));
}

/// Does the most useful thing that can be done now. False: nothing can.
bool ShmEndpoint::step() {
    const bool owed = arena_.owes_notify();
    if (filled_ < chunks_of(stream_.bytes()) && filled_ <= drained_ + 1 && can_fill()) {
        fill();
    } else if (drained_ == chunks_ || !can_drain() || !drain()) {
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
    bool has_large = false;
    for (int peer = 0; peer < size(); ++peer) {
        if (peer == place()) {
            continue;
        }
        auto& incoming = incoming_[static_cast<std::size_t>(peer)];
        const auto* const stream = slot(peer, 0);
        std::uint64_t begin = 0;
        std::memcpy(&begin, stream + static_cast<std::size_t>(place()) * sizeof begin,
                    sizeof begin);
        const auto* const after = stream + static_cast<std::size_t>(size()) * sizeof begin;
        std::uint64_t end = 0;
        std::memcpy(&end, after, sizeof end);
        std::memcpy(&incoming.process, after + sizeof end, sizeof incoming.process);
        incoming.chunks = chunks_of(end);
        chunks_ = std::max(chunks_, incoming.chunks);
        has_large = has_large || incoming.out.bytes() >= DirectReads::kSmallest;
        if ((begin & kIsDirect) != 0) {
            read_pieces(incoming, stream + (begin & ~kIsDirect));
            begin = 0;
            incoming.end = 0;
        } else {
            incoming.end = begin + incoming.out.bytes();
        }
        incoming.begin = begin;
    }
    if (has_large && !direct_.have_tried()) {
        try_direct_reads();
    }
}

void ShmEndpoint::read_pieces(const Incoming& incoming, const std::byte* from) {
    std::vector<RemotePiece> pieces;
    for (RemotePiece piece;; from += sizeof piece) {
        std::memcpy(&piece, from, sizeof piece);
        if (piece.bytes == 0) {
            break;
        }
        pieces.push_back(piece);
    }
    direct_.add(incoming.process, std::move(pieces), incoming.out);
}

void ShmEndpoint::try_direct_reads() {
    std::vector<RemoteProcess> processes;
    for (const auto& incoming : incoming_) {
        processes.push_back(incoming.process);
    }
    direct_.try_all(processes);
}

/// Takes the next chunk, or some of what is read directly, which is done before the last chunk has
/// been drained: a sender whose chunks all have drained may have its memory again. False: nothing
/// could be done.
bool ShmEndpoint::drain() {
    if (!has_tables_) {
        read_tables();
        has_tables_ = true;
    }
    if (drained_ + 1 == chunks_ && !direct_.are_done()) {
        auto is_read = direct_.read_some();
        if (!is_read) {
            failure_ = is_read.error();
        }
        return is_read && *is_read;
    }
    drain_chunk();
    return true;
}

void ShmEndpoint::drain_chunk() {
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
