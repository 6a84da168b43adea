// SPDX-License-Identifier: Apache-2.0
//
// Allreduce. The elements are cut into as many slices as there are members, and each member owns
// one: everybody sends every owner its slice, the owner adds them up in the order of the places,
// and sends the result to everybody. Each member sends and receives 2 (n-1)/n of the bytes, which
// is the least there can be, in two steps; and every element is a sum in the order of the places,
// whatever the size. Large tensors go in rounds, so that the inputs that an owner keeps need not be
// as large as the tensor. Small ones go to everybody at once, and everybody adds up: one step.
#pragma once

#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/algorithms/scheduled_work.hpp"
#include "collectives/algorithms/scratch.hpp"
#include "collectives/reduce/reducer.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hvd::coll {

class AllreduceSchedule {
public:
    template <Endpoint At>
    AllreduceSchedule(const At& at, ScratchPool& pool, const Task& task)
        : element_bytes_(size_of(task.type)),
          members_(static_cast<std::size_t>(at.size())),
          reducer_(task, at.size()),
          lists_(task) {
        const auto slice =
            std::clamp(kScratchBytes / members_, kSmallestSlice, kLargestSlice) / element_bytes_;
        round_bytes_ = std::min(lists_.bytes(), slice * element_bytes_ * members_);
        stride_ = is_direct() ? lists_.bytes() : (slice + 1) * element_bytes_;
        stride_ = std::min(stride_, lists_.bytes());
        scratch_ = pool.take(stride_ * members_);
        inputs_.resize(members_);
    }

    template <Endpoint At>
    [[nodiscard]] bool advance(At& at) {
        switch (step_) {
            case Step::begin: break;
            case Step::collect:
                reduce(at);
                if (!is_direct()) {
                    begin_spread(at);
                    return true;
                }
                [[fallthrough]];
            case Step::spread: done_ += round().size(); break;
        }
        if (done_ == lists_.bytes()) {
            return false;
        }
        begin_collect(at);
        return true;
    }

private:
    static constexpr std::size_t kDirectBytes = std::size_t{4} << 10;  // to here all add up
    static constexpr std::size_t kScratchBytes = std::size_t{64} << 20;
    static constexpr std::size_t kLargestSlice = std::size_t{1} << 20;
    static constexpr std::size_t kSmallestSlice = std::size_t{64} << 10;

    enum class Step { begin, collect, spread };

    [[nodiscard]] bool is_direct() const noexcept { return lists_.bytes() <= kDirectBytes; }

    [[nodiscard]] Range round() const noexcept {
        return {done_, std::min(done_ + round_bytes_, lists_.bytes())};
    }
    /// The slice of this round that the place owns.
    [[nodiscard]] Range slice_of(int place) const noexcept {
        return is_direct()
                   ? round()
                   : round().slice(static_cast<std::size_t>(place), members_, element_bytes_);
    }

    template <Endpoint At>
    void begin_collect(At& at) {
        step_ = Step::collect;
        const auto own = slice_of(at.place());
        for_each_peer(at, [&](int peer) {
            const auto theirs = slice_of(peer);
            send_range(at, peer, lists_.in, theirs.begin, theirs.end);
            if (own.size() != 0) {
                at.recv(peer, {input_of(peer), own.size()});
            }
        });
    }

    template <Endpoint At>
    void begin_spread(At& at) {
        step_ = Step::spread;
        const auto own = slice_of(at.place());
        for_each_peer(at, [&](int peer) {
            const auto theirs = slice_of(peer);
            send_range(at, peer, lists_.out, own.begin, own.end);
            recv_range(at, peer, lists_.out, theirs.begin, theirs.end);
        });
    }

    [[nodiscard]] std::byte* input_of(int place) const noexcept {
        return scratch_.data() + stride_ * static_cast<std::size_t>(place);
    }

    template <Endpoint At>
    void reduce(const At& at) {
        lists_.for_each(slice_of(at.place()), [&](const std::byte* from, std::byte* to,
                                                  std::size_t bytes, std::size_t offset) {
            for_each_peer(at, [&](int peer) {
                inputs_[static_cast<std::size_t>(peer)] = input_of(peer) + offset;
            });
            inputs_[static_cast<std::size_t>(at.place())] = from;
            reducer_.run(inputs_, {&to, 1}, bytes / element_bytes_);
        });
    }

    std::size_t element_bytes_;
    std::size_t members_;
    Reducer reducer_;
    TaskLists lists_;
    std::size_t round_bytes_ = 0;
    std::size_t stride_ = 0;  // of the inputs in the scratch memory
    ScratchPool::Block scratch_;
    std::vector<const std::byte*> inputs_;  // for `reduce`
    std::size_t done_ = 0;
    Step step_ = Step::begin;
};

}  // namespace hvd::coll
