// SPDX-License-Identifier: Apache-2.0
//
// Large messages of a step that their receivers read where they lie. A sender does so with all its
// large messages once the others of the set have said that they can.
#pragma once

#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/base/error.hpp"
#include "collectives/shm/arena.hpp"
#include "collectives/transport/shm/peer_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvd::coll::shm {

/// The messages that this member reads in a step. Thread: progress lock.
class DirectReads {
public:
    /// Of such a message. Two copies through the slots, which stay in the CPU's cache, take less
    /// time than the system call for fewer bytes.
    static constexpr std::size_t kSmallest = std::size_t{64} << 10;
    static constexpr std::size_t kMostPieces = 16;

    explicit DirectReads(Arena& arena);
    ~DirectReads() = default;
    DirectReads(const DirectReads&) = delete;
    DirectReads& operator=(const DirectReads&) = delete;

    /// This process as each step describes it to the other members.
    [[nodiscard]] const RemoteProcess& own() const noexcept { return own_; }

    /// Whether the member may be sent messages that it reads itself.
    [[nodiscard]] bool can_read(int place) const noexcept {
        return arena_.area(place).reads_peers.value.load(std::memory_order_acquire) == kCan;
    }

    /// Whether `try_all` has been called.
    [[nodiscard]] bool have_tried() const noexcept {
        return arena_.own().reads_peers.value.load(std::memory_order_relaxed) != 0;
    }

    /// Once, when a large message has come: finds out whether this member can read the memory of
    /// all others, and tells them. `processes` is by place.
    void try_all(const std::vector<RemoteProcess>& processes);

    /// Adds a message of this step.
    void add(const RemoteProcess& from, std::vector<RemotePiece> pieces, const OutList& to);

    [[nodiscard]] bool are_done() const noexcept { return messages_.empty(); }

    /// Reads some of it. False: nothing could be read, since a process has ended.
    /// Errors: see read_process.
    [[nodiscard]] Result<bool> read_some();

private:
    static constexpr std::uint64_t kCan = 1;
    static constexpr std::uint64_t kCannot = 2;
    static constexpr std::size_t kBytesAtOnce = std::size_t{1} << 20;

    struct Message {
        RemoteProcess from;
        std::vector<RemotePiece> pieces;
        const OutList* to = nullptr;
        std::size_t done = 0;
    };

    [[nodiscard]] bool can_read_all(const std::vector<RemoteProcess>& processes) const;

    Arena& arena_;
    RemoteProcess own_;
    std::vector<Message> messages_;
};

}  // namespace hvd::coll::shm
