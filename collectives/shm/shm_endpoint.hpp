// SPDX-License-Identifier: Apache-2.0
//
// Messages between the members of a set, for the schedules of collectives/algorithms. A step is one
// pass through the gather slots: a member's messages lie behind each other in one stream, behind a
// table that says where each begins, and go chunk by chunk into its slots, from which every other
// member takes what is for it. Of a large message the stream has only the addresses where the
// kernel lets its receiver read it there. All members make a step together.
#pragma once

#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/base/result.hpp"
#include "collectives/shm/arena.hpp"
#include "collectives/shm/direct_reads.hpp"
#include "collectives/transport/endpoint.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hvd::coll::shm {

/// Thread: progress lock.
class ShmEndpoint {
public:
    /// The arena outlives it.
    explicit ShmEndpoint(Arena& arena);

    [[nodiscard]] int place() const noexcept { return arena_.place(); }
    [[nodiscard]] int size() const noexcept { return arena_.size(); }
    void send(int place, std::span<const std::byte> bytes);
    void recv(int place, std::span<std::byte> bytes);
    void post();
    [[nodiscard]] Result<bool> wait();
    [[nodiscard]] std::vector<int> missing() const { return arena_.missing_in_gather(base_); }

private:
    /// The bytes that another member sends to this one, and their place in its stream.
    struct Incoming {
        OutList out;
        std::size_t begin = 0;
        std::size_t end = 0;
        std::size_t chunks = 0;  // of its whole stream
        RemoteProcess process;
    };

    void send_directly(std::size_t to);
    [[nodiscard]] bool has_ended() const noexcept;
    [[nodiscard]] bool step();
    [[nodiscard]] bool can_fill() const noexcept;
    void fill();
    [[nodiscard]] bool can_drain() const noexcept;
    void read_tables();
    void read_pieces(const Incoming& incoming, const std::byte* from);
    void try_direct_reads();
    [[nodiscard]] bool drain();
    void drain_chunk();
    [[nodiscard]] const std::byte* slot(int place, std::size_t chunk) const noexcept;

    Arena& arena_;
    std::vector<InList> outgoing_;      // by place
    std::vector<Incoming> incoming_;    // by place
    std::vector<std::uint64_t> table_;  // where each message begins, and the end of the stream
    std::vector<std::vector<RemotePiece>> pieces_;  // by place: of messages that are read directly
    InList stream_;
    DirectReads direct_;
    bool has_tables_ = false;      // of this step
    bool sends_directly_ = false;  // in this step: memory is free when the others have drained
    std::optional<Error> failure_;
    std::uint64_t base_ = 0;  // sequence number before the first chunk
    std::size_t chunks_ = 0;  // of the longest stream; 1 until the tables are read
    std::size_t filled_ = 0;
    std::size_t drained_ = 0;
};

static_assert(Endpoint<ShmEndpoint>);

}  // namespace hvd::coll::shm
