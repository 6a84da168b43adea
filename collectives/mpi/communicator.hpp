// SPDX-License-Identifier: Apache-2.0
//
// A communicator of our own, and the one collective that may run on it.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/mpi/loader.hpp"
#include "collectives/types.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace hvd::coll::mpi {

/// Bytes that go to, or come from, each rank.
struct Layout {
    std::vector<int> counts;
    std::vector<int> offsets;

    void append(std::size_t bytes);
    void clear();
    [[nodiscard]] std::size_t bytes() const noexcept { return end_; }

private:
    std::size_t end_ = 0;
};

/// Move-only: created and released together on all its ranks.
///
/// Thread: progress lock. Errors of MPI are values: internal, with MPI's own words.
class Communicator {
public:
    /// Blocks until all its ranks call it. Errors: timed_out.
    [[nodiscard]] static Result<Communicator> duplicate(const Library& library,
                                                        std::uint64_t handle,
                                                        Deadline deadline);

    Communicator(Communicator&& other) noexcept;
    Communicator& operator=(Communicator&& other) noexcept;
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;
    ~Communicator();

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return size_; }

    /// A communicator of these of the ranks, which alone call it, and block. Sets that have ranks
    /// in common and are made at the same time have different tags. MPI cannot call it off: the
    /// process ends at the deadline (see Watch).
    [[nodiscard]] Result<Communicator> subset(std::span<const int> ranks,
                                              int tag,
                                              Deadline deadline) const;
    /// Of the ranks that can share memory with this one. All ranks call it, and block; the deadline
    /// is that of `subset`.
    [[nodiscard]] Result<Communicator> of_this_host(Deadline deadline) const;

    /// Each begins a collective; none may be in flight. The memory stays valid until `is_done`.
    [[nodiscard]] Status alltoall(const std::byte* in, Layout from, std::byte* out, Layout to);
    /// The own part lies in `out` already.
    [[nodiscard]] Status allgather(std::byte* out, Layout to);
    [[nodiscard]] Status broadcast(std::span<std::byte> data, int root);
    /// In place. MPI chooses the order of the additions; it is the same on all ranks. `combine` is
    /// always the same one for an operation.
    [[nodiscard]] Status allreduce(std::span<float> data, ReduceOp op, HvdMpiCombine combine);
    [[nodiscard]] Status barrier();

    /// Lets MPI make progress. True when the collective that was begun is over.
    [[nodiscard]] Result<bool> is_done();

    /// Blocks until it is over. Errors: timed_out, after which the communicator is given up and
    /// MPI may still write into the collective's memory.
    [[nodiscard]] Status wait(Deadline deadline, std::string_view what);

    /// MPI may still write into the memory of a collective that was begun.
    [[nodiscard]] bool is_in_flight() const noexcept { return is_in_flight_; }

    /// One message of a set. Any number may be under way. The memory stays valid until `test` says
    /// that the request is over.
    [[nodiscard]] Result<std::uint64_t> send(std::span<const std::byte> bytes, int to, int tag);
    [[nodiscard]] Result<std::uint64_t> recv(std::span<std::byte> bytes, int from, int tag);
    [[nodiscard]] Result<bool> test(std::uint64_t& request);
    /// Calls a `recv` off. False when that cannot be had: its memory is MPI's for good.
    [[nodiscard]] bool cancel(std::uint64_t& request) noexcept;
    [[nodiscard]] int largest_tag() const noexcept;
    /// A message will never be over: MPI must not wait for it when the process ends, nor may a
    /// later communicator that MPI cannot tell from this one receive it.
    void leave_unfinished() noexcept {
        table_->given_up();
        is_unfinished_ = true;
    }

    /// A rank is gone or given up: MPI has no way back. Nothing of it is called any more, not even
    /// to end it.
    void give_up() noexcept;

private:
    Communicator(const HvdMpiTable* table, std::uint64_t handle) noexcept
        : table_(table), handle_(handle) {}

    [[nodiscard]] Status begun(int code, std::string_view what);
    [[nodiscard]] static Result<Communicator> adopt_new(const HvdMpiTable* table,
                                                        int code,
                                                        std::uint64_t handle,
                                                        std::string_view what);

    const HvdMpiTable* table_;
    std::uint64_t handle_;
    int rank_ = 0;
    int size_ = 1;
    Layout from_;  // of the collective in flight: MPI reads them until it is done
    Layout to_;
    std::uint64_t request_ = 0;
    bool is_in_flight_ = false;
    bool is_unfinished_ = false;
};

/// An error code of MPI as an Error.
[[nodiscard]] Error mpi_error(const HvdMpiTable& table, int code, std::string_view what);

}  // namespace hvd::coll::mpi
