// SPDX-License-Identifier: Apache-2.0
//
// Allreduce of f16 and bf16 by MPI itself, where ranks of several hosts need not add up in rank
// order. MPI knows neither type, so that a user operation adds up: partial sums are f32, since 16
// bits would be rounded at every step. They take twice the room, but MPI combines them along a tree
// or a ring: of short messages a rank sends as many as the ranks have digits, and not one to each.
#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/mpi/works.hpp"
#include "collectives/reduce/half_sums.hpp"

#include <cstddef>
#include <span>

namespace hvd::coll::mpi {
namespace {

class HalfAllreduceWork final : public SteppedWork {
public:
    HalfAllreduceWork(State& the_state, const Task& task)
        : SteppedWork(the_state),
          op_(task.reduce),
          sums_(task, communicator().size()),
          lists_(task),
          element_bytes_(size_of(task.type)) {
        const auto count = lists_.bytes() / element_bytes_;
        partial_ = {reinterpret_cast<float*>(state().first.need(count * sizeof(float))), count};
    }

private:
    [[nodiscard]] Result<bool> advance() override {
        if (!is_begun_) {
            is_begun_ = true;
            lists_.in.for_each(0, lists_.bytes(),
                               [&](const std::byte* from, std::size_t bytes, std::size_t offset) {
                                   sums_.widen(from, part(offset, bytes));
                               });
            HVD_TRY_STATUS(communicator().allreduce(partial_, op_, float_combiner(op_)));
            return true;
        }
        lists_.out.for_each(0, lists_.bytes(),
                            [&](std::byte* to, std::size_t bytes, std::size_t offset) {
                                sums_.finish(part(offset, bytes), to);
                            });
        return false;
    }

    [[nodiscard]] std::span<float> part(std::size_t offset, std::size_t bytes) const {
        return partial_.subspan(offset / element_bytes_, bytes / element_bytes_);
    }

    ReduceOp op_;
    HalfSums sums_;
    TaskLists lists_;
    std::size_t element_bytes_;
    std::span<float> partial_;
    bool is_begun_ = false;
};

}  // namespace

bool is_for_mpi_to_add(const State& state, const Task& task) noexcept {
    // With fewer ranks, or more bytes, moving 16 bits and adding up ourselves is faster: MPI's tree
    // has more steps, each of which waits for MPI to be polled.
    constexpr int kFewestRanks = 16;
    constexpr std::size_t kMostBytes = std::size_t{16} << 10;
    return state.order == SumOrder::any && HalfSums::can(task) &&
           state.communicator.size() >= kFewestRanks && input_bytes(task) <= kMostBytes;
}

std::unique_ptr<Work> start_half_allreduce(State& state, const Task& task) {
    return std::make_unique<HalfAllreduceWork>(state, task);
}

}  // namespace hvd::coll::mpi
