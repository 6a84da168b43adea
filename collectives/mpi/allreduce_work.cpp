// SPDX-License-Identifier: Apache-2.0
//
// Allreduce in rank order. The order of the additions of MPI_Allreduce may differ from one size or
// number of ranks to the next, and its integers wrap where those of Reducer are exact. So MPI moves
// the bytes and Reducer does the arithmetic, as in all backends: each rank gets one slice of the
// elements of all ranks (MPI_Ialltoallv), adds them up in rank order, and sends the sums to all
// (MPI_Iallgatherv). That is 2 (n-1)/n of the bytes for each rank, the least there can be. Large
// tensors go in rounds; small ones go to all ranks at once, and each rank adds them up.
#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/mpi/works.hpp"
#include "collectives/reduce/reducer.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace hvd::coll::mpi {
namespace {

constexpr std::size_t kDirectBytes = std::size_t{4} << 10;  // up to here everybody adds up

class AllreduceWork final : public SteppedWork {
public:
    AllreduceWork(State& the_state, const Task& task)
        : SteppedWork(the_state),
          element_bytes_(size_of(task.type)),
          reducer_(task, communicator().size()),
          lists_(task) {
        const auto most = std::max(kRoundBytes, kLeastPart * ranks()) / element_bytes_;
        round_bytes_ = std::min(lists_.bytes(), most * element_bytes_);
        if (is_direct()) {
            inputs_ = state().first.need(lists_.bytes() * ranks());
        } else {
            whole_ = state().first.need(round_bytes_);
            // The slices of a round differ by one element.
            inputs_ = state().second.need(round_bytes_ + ranks() * element_bytes_);
        }
    }

private:
    enum class Step { begin, direct, collect, spread };

    [[nodiscard]] bool is_direct() const noexcept { return lists_.bytes() <= kDirectBytes; }

    [[nodiscard]] Result<bool> advance() override {
        switch (step_) {
            case Step::begin: break;
            case Step::direct: reduce_to_out(); return false;
            case Step::collect: reduce_own_slice(); return begin_spread();
            case Step::spread:
                copy_out();
                done_ += round().size();
                break;
        }
        if (done_ == lists_.bytes()) {
            return false;
        }
        return is_direct() ? begin_direct() : begin_collect();
    }

    [[nodiscard]] Range round() const noexcept {
        return {done_, std::min(done_ + round_bytes_, lists_.bytes())};
    }

    /// The slice of this round that the rank adds up.
    [[nodiscard]] Range slice_of(std::size_t rank) const noexcept {
        return round().slice(rank, ranks(), element_bytes_);
    }

    void copy_in(Range range, std::byte* to) const {
        lists_.in.for_each(range.begin, range.end,
                           [&](const std::byte* memory, std::size_t bytes, std::size_t offset) {
                               std::memcpy(to + offset, memory, bytes);
                           });
    }

    [[nodiscard]] Result<bool> begin_direct() {
        step_ = Step::direct;
        copy_in(round(), inputs_ + rank() * lists_.bytes());
        Layout everybody;
        for (std::size_t peer = 0; peer < ranks(); ++peer) {
            everybody.append(lists_.bytes());
        }
        HVD_TRY_STATUS(communicator().allgather(inputs_, std::move(everybody)));
        return true;
    }

    void reduce_to_out() {
        lists_.out.for_each(0, lists_.bytes(),
                            [&](std::byte* to, std::size_t bytes, std::size_t offset) {
                                reduce(offset, lists_.bytes(), to, bytes);
                            });
    }

    [[nodiscard]] Result<bool> begin_collect() {
        step_ = Step::collect;
        copy_in(round(), whole_);
        Layout from;
        Layout to;
        const auto own = slice_of(rank()).size();
        for (std::size_t peer = 0; peer < ranks(); ++peer) {
            from.append(slice_of(peer).size());
            to.append(own);
        }
        HVD_TRY_STATUS(communicator().alltoall(whole_, std::move(from), inputs_, std::move(to)));
        return true;
    }

    void reduce_own_slice() {
        const auto own = slice_of(rank());
        if (own.size() != 0) {
            reduce(0, own.size(), whole_ + (own.begin - done_), own.size());
        }
    }

    /// Adds up what lies at `offset` of every rank's input; `stride` is from one to the next.
    void reduce(std::size_t offset, std::size_t stride, std::byte* to, std::size_t bytes) {
        std::vector<const std::byte*> inputs(ranks());
        for (std::size_t peer = 0; peer < ranks(); ++peer) {
            inputs[peer] = inputs_ + peer * stride + offset;
        }
        reducer_.run(inputs, {&to, 1}, bytes / element_bytes_);
    }

    [[nodiscard]] Result<bool> begin_spread() {
        step_ = Step::spread;
        Layout slices;
        for (std::size_t peer = 0; peer < ranks(); ++peer) {
            slices.append(slice_of(peer).size());
        }
        HVD_TRY_STATUS(communicator().allgather(whole_, std::move(slices)));
        return true;
    }

    void copy_out() {
        lists_.out.for_each(round().begin, round().end,
                            [&](std::byte* memory, std::size_t bytes, std::size_t offset) {
                                std::memcpy(memory, whole_ + offset, bytes);
                            });
    }

    std::size_t element_bytes_;
    Reducer reducer_;
    TaskLists lists_;
    std::size_t round_bytes_ = 0;
    std::byte* whole_ = nullptr;   // this round: inputs first, then results
    std::byte* inputs_ = nullptr;  // of all ranks, for what this one adds up
    std::size_t done_ = 0;
    Step step_ = Step::begin;
};

}  // namespace

std::unique_ptr<Work> start_allreduce(State& state, const Task& task) {
    return std::make_unique<AllreduceWork>(state, task);
}

}  // namespace hvd::coll::mpi
