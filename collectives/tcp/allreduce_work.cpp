// SPDX-License-Identifier: Apache-2.0
//
// Allreduce. The elements are cut into as many slices as there are ranks, and each rank owns one:
// everybody sends every owner its slice, the owner adds them up in rank order, and sends the result
// to everybody. Each rank sends and receives 2 (n-1)/n of the bytes, which is the least there can
// be, in two steps; and every element is a sum in rank order, whatever the size. Large tensors go
// in rounds, so that the inputs that an owner keeps need not be as large as the tensor. Small ones
// go to everybody at once, and everybody adds up: one step instead of two.
#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/reduce/reducer.hpp"
#include "collectives/tcp/works.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace hvd::coll::tcp {
namespace {

constexpr std::size_t kDirectBytes = std::size_t{4} << 10;  // up to here everybody adds up
constexpr std::size_t kScratchBytes = std::size_t{64} << 20;
constexpr std::size_t kLargestSlice = std::size_t{1} << 20;
constexpr std::size_t kSmallestSlice = std::size_t{64} << 10;

class AllreduceWork final : public SteppedWork {
public:
    AllreduceWork(State& state, const Task& task)
        : SteppedWork(state),
          element_bytes_(size_of(task.type)),
          ranks_(static_cast<std::size_t>(mesh().size())),
          reducer_(task, mesh().size()),
          lists_(task) {
        const auto slice =
            std::clamp(kScratchBytes / ranks_, kSmallestSlice, kLargestSlice) / element_bytes_;
        round_bytes_ = std::min(lists_.bytes(), slice * element_bytes_ * ranks_);
        stride_ = is_direct() ? lists_.bytes() : (slice + 1) * element_bytes_;
        stride_ = std::min(stride_, lists_.bytes());
        if (scratch().size() < stride_ * ranks_) {
            scratch().resize(stride_ * ranks_);
        }
    }

private:
    [[nodiscard]] bool is_direct() const noexcept { return lists_.bytes() <= kDirectBytes; }

    enum class Step { begin, collect, spread };

    [[nodiscard]] bool advance() override {
        switch (step_) {
            case Step::begin: break;
            case Step::collect:
                reduce(own_slice());
                if (!is_direct()) {
                    begin_spread();
                    return true;
                }
                [[fallthrough]];
            case Step::spread: done_ += round().size(); break;
        }
        if (done_ == lists_.bytes()) {
            return false;
        }
        begin_collect();
        return true;
    }

    [[nodiscard]] Range round() const noexcept {
        return {done_, std::min(done_ + round_bytes_, lists_.bytes())};
    }

    /// The slice of this round that the rank owns.
    [[nodiscard]] Range slice_of(std::size_t rank) const noexcept {
        return is_direct() ? round() : round().slice(rank, ranks_, element_bytes_);
    }
    [[nodiscard]] Range own_slice() noexcept {
        return slice_of(static_cast<std::size_t>(mesh().rank()));
    }

    template <class Visit>
    void for_each_peer(Visit visit) {
        for (int peer = 0; peer < mesh().size(); ++peer) {
            if (peer != mesh().rank()) {
                visit(peer);
            }
        }
    }

    void begin_collect() {
        step_ = Step::collect;
        exchange().begin();
        const auto own = own_slice();
        for_each_peer([&](int peer) {
            const auto theirs = slice_of(static_cast<std::size_t>(peer));
            lists_.in.for_each(theirs.begin, theirs.end,
                               [&](const std::byte* memory, std::size_t bytes, std::size_t) {
                                   exchange().send(peer, {memory, bytes});
                               });
            if (own.size() != 0) {
                exchange().receive(peer, {input_of(peer), own.size()});
            }
        });
    }

    void begin_spread() {
        step_ = Step::spread;
        exchange().begin();
        const auto own = own_slice();
        for_each_peer([&](int peer) {
            lists_.out.for_each(own.begin, own.end,
                                [&](const std::byte* memory, std::size_t bytes, std::size_t) {
                                    exchange().send(peer, {memory, bytes});
                                });
            const auto theirs = slice_of(static_cast<std::size_t>(peer));
            lists_.out.for_each(theirs.begin, theirs.end,
                                [&](std::byte* memory, std::size_t bytes, std::size_t) {
                                    exchange().receive(peer, {memory, bytes});
                                });
        });
    }

    [[nodiscard]] std::byte* input_of(int peer) noexcept {
        return scratch().data() + stride_ * static_cast<std::size_t>(peer);
    }

    void reduce(Range own) {
        std::vector<const std::byte*> inputs(ranks_);
        lists_.for_each(
            own, [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t offset) {
                for_each_peer([&](int peer) {
                    inputs[static_cast<std::size_t>(peer)] = input_of(peer) + offset;
                });
                inputs[static_cast<std::size_t>(mesh().rank())] = from;
                reducer_.run(inputs, {&to, 1}, bytes / element_bytes_);
            });
    }

    std::size_t element_bytes_;
    std::size_t ranks_;
    Reducer reducer_;
    TaskLists lists_;
    std::size_t round_bytes_ = 0;
    std::size_t stride_ = 0;  // of the inputs in the scratch memory
    std::size_t done_ = 0;
    Step step_ = Step::begin;
};

}  // namespace

std::unique_ptr<Work> start_allreduce(State& state, const Task& task) {
    return std::make_unique<AllreduceWork>(state, task);
}

}  // namespace hvd::coll::tcp
