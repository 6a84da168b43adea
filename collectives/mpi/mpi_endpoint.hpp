// SPDX-License-Identifier: Apache-2.0
//
// The messages of a process set, from rank to rank, on the communicator of the world: MPI makes a
// new communicator only in a call that blocks, and that nothing can call off. Each set has a tag.
#pragma once

#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/base/result.hpp"
#include "collectives/mpi/works.hpp"
#include "collectives/process_set.hpp"
#include "collectives/transport/endpoint.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace hvd::coll::mpi {

/// Thread: progress lock.
class MpiEndpoint {
public:
    /// `state` outlives it. Throws Exception when MPI has no tag for the set.
    MpiEndpoint(State& state, const ProcessSet& set);
    ~MpiEndpoint();
    MpiEndpoint(const MpiEndpoint&) = delete;
    MpiEndpoint& operator=(const MpiEndpoint&) = delete;

    [[nodiscard]] int place() const noexcept { return place_; }
    [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks_.size()); }
    void send(int place, std::span<const std::byte> bytes);
    void recv(int place, std::span<std::byte> bytes);
    void post() noexcept {}
    [[nodiscard]] Result<bool> wait();

    /// Every `wait` fails with the cause.
    void abort(const Error& cause) noexcept;

private:
    /// One message, which goes in parts through memory of our own: where MPI has to be given up, it
    /// may write whenever it likes.
    template <class List>
    struct Message {
        List list{};
        bool is_due = false;  // of this step, and not over
        bool is_in_flight = false;
        std::size_t begin = 0;  // of the part that is under way, or comes next
        std::size_t end = 0;
        std::uint64_t request = 0;
        std::unique_ptr<std::vector<std::byte>> memory{};
    };

    [[nodiscard]] Status advance(Message<InList>& message, int rank);
    [[nodiscard]] Status advance(Message<OutList>& message, int rank);
    template <class List>
    void begin_part(Message<List>& message) const;
    template <class List>
    [[nodiscard]] Result<bool> is_part_over(Message<List>& message) const;
    template <class List>
    void end_part(Message<List>& message) const;

    State& state_;
    std::vector<int> ranks_;
    int place_;
    int tag_;
    std::vector<Message<InList>> out_;  // by place
    std::vector<Message<OutList>> in_;
    std::optional<Error> cause_;
};

static_assert(Endpoint<MpiEndpoint>);

}  // namespace hvd::coll::mpi
