// SPDX-License-Identifier: Apache-2.0
//
// The schedules. All ranks choose the same one for a task; the state must outlive the Work.
#pragma once

#include "collectives/alarm.hpp"
#include "collectives/algorithms/scratch.hpp"
#include "collectives/backend.hpp"
#include "collectives/mpi/communicator.hpp"
#include "collectives/sum_order.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace hvd::coll::mpi {

/// Memory that MPI reads and writes. It is never the tensors' own: a collective of MPI that has
/// begun cannot be called off, so that after a failure it may write whenever it likes.
class StagingBuffer {
public:
    /// At least `bytes`, with what was in it lost.
    [[nodiscard]] std::byte* need(std::size_t bytes);

    /// Keeps the memory until the process ends.
    void abandon() noexcept { (void)memory_.release(); }

private:
    std::unique_ptr<std::vector<std::byte>> memory_ = std::make_unique<std::vector<std::byte>>();
};

/// MPI has no descriptor to sleep on, and makes progress only while it is called.
inline constexpr std::chrono::microseconds kPollInterval{50};

/// State that the tasks of one backend share.
struct State {
    State(Communicator the_communicator, Reactor& reactor, SumOrder the_order)
        : communicator(std::move(the_communicator)),
          alarm(reactor, kPollInterval),
          order(the_order) {}
    ~State();
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    Communicator communicator;
    Alarm alarm;
    const SumOrder order;
    StagingBuffer first;
    StagingBuffer second;
    ScratchPool scratch;         // of what goes from rank to rank: MPI never touches it
    std::optional<Error> cause;  // aborted
};

/// A Work made of steps, each of which is one collective of MPI.
class SteppedWork : public Work {
public:
    [[nodiscard]] Result<Progress> poll() final;

protected:
    explicit SteppedWork(State& state) : state_(state) {}

    /// Ends the last step and begins the next one. False when there is none.
    [[nodiscard]] virtual Result<bool> advance() = 0;

    [[nodiscard]] State& state() noexcept { return state_; }
    [[nodiscard]] Communicator& communicator() noexcept { return state_.communicator; }
    [[nodiscard]] std::size_t ranks() const noexcept {
        return static_cast<std::size_t>(state_.communicator.size());
    }
    [[nodiscard]] std::size_t rank() const noexcept {
        return static_cast<std::size_t>(state_.communicator.rank());
    }

private:
    State& state_;
    bool in_step_ = false;
    bool is_over_ = false;
};

/// Bytes that one step moves at most, in all: MPI counts in ints, and the staging buffer need not
/// be as large as the tensors.
inline constexpr std::size_t kRoundBytes = std::size_t{8} << 20;
inline constexpr std::size_t kLeastPart = std::size_t{64} << 10;  // of a rank, in a long round

/// Allreduce of any size but 0.
[[nodiscard]] std::unique_ptr<Work> start_allreduce(State& state, const Task& task);

/// The same by MPI's own reduction, and whether it is the better way. Pure: all ranks decide alike.
[[nodiscard]] bool is_for_mpi_to_add(const State& state, const Task& task) noexcept;
[[nodiscard]] std::unique_ptr<Work> start_half_allreduce(State& state, const Task& task);

/// The collectives that only move bytes.
[[nodiscard]] std::unique_ptr<Work> start_allgather(State& state, const Task& task);
[[nodiscard]] std::unique_ptr<Work> start_broadcast(State& state, const Task& task);
[[nodiscard]] std::unique_ptr<Work> start_barrier(State& state);

}  // namespace hvd::coll::mpi
