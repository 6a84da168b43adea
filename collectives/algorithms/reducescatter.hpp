// SPDX-License-Identifier: Apache-2.0
//
// Reducescatter: everybody sends every owner its part, and the owner adds the parts up in the order
// of the places. Large parts go in rounds, so that the inputs that an owner keeps stay small.
#pragma once

#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/algorithms/scheduled_work.hpp"
#include "collectives/algorithms/scratch.hpp"
#include "collectives/reduce/reducer.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hvd::coll {

class ReducescatterSchedule {
public:
    template <Endpoint At>
    ReducescatterSchedule(const At& at, ScratchPool& pool, const Task& task)
        : element_bytes_(size_of(task.type)),
          reducer_(task, at.size()),
          lists_(task, at.place(), at.size()) {
        const auto members = static_cast<std::size_t>(at.size());
        round_bytes_ = std::clamp(kScratchBytes / members, kSmallestRound, kLargestRound);
        round_bytes_ = std::min(round_bytes_ / element_bytes_ * element_bytes_, lists_.longest());
        scratch_ = pool.take(std::min(round_bytes_, lists_.own().bytes()) * members);
        inputs_.resize(members);
    }

    template <Endpoint At>
    [[nodiscard]] bool advance(At& at) {
        if (is_begun_) {
            reduce(at);
            done_ += round_bytes_;
        }
        is_begun_ = true;
        if (done_ >= lists_.longest()) {
            return false;
        }
        const auto own = round_of(lists_.own().bytes());
        for_each_peer(at, [&](int peer) {
            const auto& theirs = lists_.to(peer);
            const auto range = round_of(theirs.bytes());
            send_range(at, peer, theirs, range.begin, range.end);
            if (own.size() != 0) {
                at.recv(peer, {input_of(peer), own.size()});
            }
        });
        return true;
    }

private:
    static constexpr std::size_t kScratchBytes = std::size_t{64} << 20;
    static constexpr std::size_t kLargestRound = std::size_t{1} << 20;
    static constexpr std::size_t kSmallestRound = std::size_t{64} << 10;

    /// This round's range of a part that has so many bytes.
    [[nodiscard]] Range round_of(std::size_t bytes) const noexcept {
        return {std::min(done_, bytes), std::min(done_ + round_bytes_, bytes)};
    }

    [[nodiscard]] std::byte* input_of(int place) const noexcept {
        return scratch_.data() +
               std::min(round_bytes_, lists_.own().bytes()) * static_cast<std::size_t>(place);
    }

    template <Endpoint At>
    void reduce(const At& at) {
        lists_.own().for_each(
            round_of(lists_.own().bytes()),
            [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t offset) {
                for_each_peer(at, [&](int peer) {
                    inputs_[static_cast<std::size_t>(peer)] = input_of(peer) + offset;
                });
                inputs_[static_cast<std::size_t>(at.place())] = from;
                reducer_.run(inputs_, {&to, 1}, bytes / element_bytes_);
            });
    }

    std::size_t element_bytes_;
    Reducer reducer_;
    PartLists lists_;
    std::size_t round_bytes_ = 0;
    ScratchPool::Block scratch_;
    std::vector<const std::byte*> inputs_;  // for `reduce`
    std::size_t done_ = 0;
    bool is_begun_ = false;
};

}  // namespace hvd::coll
