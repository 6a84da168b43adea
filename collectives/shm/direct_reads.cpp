// SPDX-License-Identifier: Apache-2.0
#include "collectives/shm/direct_reads.hpp"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include <sys/random.h>
#include <unistd.h>

namespace hvd::coll::shm {
namespace {

[[nodiscard]] std::uint64_t random_number() {
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != sizeof number) {
        throw Exception(system_error("getrandom", errno));
    }
    return number;
}

/// The bytes of the pieces from `begin` up to `end`.
[[nodiscard]] std::vector<RemotePiece> part_of(std::span<const RemotePiece> pieces,
                                               std::size_t begin,
                                               std::size_t end) {
    std::vector<RemotePiece> part;
    std::size_t start = 0;
    for (const auto& piece : pieces) {
        const std::size_t from = std::max(begin, start);
        const std::size_t to = std::min<std::size_t>(end, start + piece.bytes);
        if (from < to) {
            part.push_back({piece.address + (from - start), to - from});
        }
        start += piece.bytes;
    }
    return part;
}

}  // namespace

DirectReads::DirectReads(Arena& arena) : arena_(arena) {
    // In the area, which children of the process do not inherit.
    auto& number = arena_.own().process_number;
    number = random_number();
    own_ = {.pid = static_cast<std::uint64_t>(::getpid()),
            .address = reinterpret_cast<std::uintptr_t>(&number),
            .number = number};
}

bool DirectReads::can_read_all(const std::vector<RemoteProcess>& processes) const {
    for (int peer = 0; peer < arena_.size(); ++peer) {
        if (peer == arena_.place()) {
            continue;
        }
        const auto is_read = read_process(processes[static_cast<std::size_t>(peer)], {}, {});
        if (!is_read || !*is_read) {
            return false;
        }
    }
    return true;
}

void DirectReads::try_all(const std::vector<RemoteProcess>& processes) {
    arena_.raise(arena_.own().reads_peers, can_read_all(processes) ? kCan : kCannot);
}

void DirectReads::add(const RemoteProcess& from,
                      std::vector<RemotePiece> pieces,
                      const OutList& to) {
    messages_.push_back({.from = from, .pieces = std::move(pieces), .to = &to});
}

Result<bool> DirectReads::read_some() {
    auto& message = messages_.back();
    const std::size_t end = std::min(message.done + kBytesAtOnce, message.to->bytes());
    std::vector<std::span<std::byte>> to;
    message.to->for_each(message.done, end, [&](std::byte* memory, std::size_t bytes, std::size_t) {
        to.emplace_back(memory, bytes);
    });
    HVD_TRY(const bool is_read,
            read_process(message.from, part_of(message.pieces, message.done, end), to));
    if (!is_read) {
        return false;
    }
    message.done = end;
    if (end == message.to->bytes()) {
        messages_.pop_back();
    }
    return true;
}

}  // namespace hvd::coll::shm
