// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/algorithms/scratch.hpp"
#include "collectives/reduce/adasum.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace hvd::coll {

/// Some elements of all tensors of a task, which are numbered one after the other.
struct Elements {
    std::size_t begin = 0;
    std::size_t end = 0;
    [[nodiscard]] std::size_t size() const noexcept { return end - begin; }

    /// A half: the first for the left of a pair.
    [[nodiscard]] Elements half(bool first) const noexcept {
        const auto middle = begin + size() / 2;
        return first ? Elements{begin, middle} : Elements{middle, end};
    }
};

/// Two gradients that Adasum combines: this member's, and what came of another one; both in the
/// precision in which it computes. Dot products are those of each tensor by itself.
class AdasumGradients {
public:
    /// Copies the tensors of `task`. `most` elements come of another member at a time.
    AdasumGradients(ScratchPool& pool, const Task& task, std::size_t most)
        : adasum_(task),
          task_(task),
          bytes_(adasum_.work_bytes()),
          count_(input_bytes(task) / size_of(task.type)),
          memory_(pool.take((count_ + most) * bytes_)),
          dots_(task.segments.size()),
          other_dots_(task.segments.size()) {
        std::size_t start = 0;
        for (const auto& segment : task.segments) {
            adasum_.widen(segment.in, at(start), segment.count);
            starts_.push_back(start);
            start += segment.count;
        }
    }

    /// Writes the result, which is this member's gradient now, where the task wants it.
    void finish() const {
        for (std::size_t index = 0; index < starts_.size(); ++index) {
            const auto& segment = task_.segments[index];
            adasum_.narrow(at(starts_[index]), segment.out, segment.count);
        }
    }

    [[nodiscard]] Elements whole() const noexcept { return {0, count_}; }
    [[nodiscard]] std::span<std::byte> own(Elements range) const noexcept {
        return {at(range.begin), range.size() * bytes_};
    }
    /// Where the other gradient's elements of a range come.
    [[nodiscard]] std::span<std::byte> received(Elements range) const noexcept {
        return {at(count_), range.size() * bytes_};
    }

    /// The whole gradient of another member of the host, the number `index` of them.
    [[nodiscard]] std::span<std::byte> of_host(std::size_t index) const noexcept {
        return {at(count_ * (index + 1)), count_ * bytes_};
    }

    /// Replaces this member's gradient by its average with so many of them.
    void average(std::size_t others) { adasum_.average(at(0), at(count_), others, count_); }

    /// The dot products as they are sent, and where those of others come.
    [[nodiscard]] std::span<const std::byte> dots() const noexcept {
        return std::as_bytes(std::span(dots_));
    }
    [[nodiscard]] std::span<std::byte> other_dots() noexcept {
        return std::as_writable_bytes(std::span(other_dots_));
    }

    /// Computes the dot products over a range. `own_is_left`: this member's gradient is the left.
    void find_dots(Elements range, bool own_is_left) {
        std::ranges::fill(dots_, AdasumDots{});
        for_each_tensor(
            range, [&](std::size_t index, const auto* own, const auto* other, std::size_t count) {
                dots_[index] =
                    own_is_left ? adasum_.dots(own, other, count) : adasum_.dots(other, own, count);
            });
    }

    void add_other_dots() noexcept {
        for (std::size_t index = 0; index < dots_.size(); ++index) {
            dots_[index].ab += other_dots_[index].ab;
            dots_[index].aa += other_dots_[index].aa;
            dots_[index].bb += other_dots_[index].bb;
        }
    }

    /// Combines the two over a range; the result is this member's gradient.
    void combine(Elements range, bool own_is_left) {
        for_each_tensor(range,
                        [&](std::size_t index, auto* own, const auto* other, std::size_t count) {
                            adasum_.combine(dots_[index], own_is_left ? own : other,
                                            own_is_left ? other : own, own, count);
                        });
    }

private:
    [[nodiscard]] std::byte* at(std::size_t element) const noexcept {
        return memory_.data() + element * bytes_;
    }

    /// Calls `function(index, own, other, count)` for each tensor that has elements of the range.
    template <class Function>
    void for_each_tensor(Elements range, Function function) const {
        const auto* const other = received(range).data();
        for (std::size_t index = 0; index < starts_.size(); ++index) {
            const auto begin = std::max(range.begin, starts_[index]);
            const auto end = std::min(range.end, starts_[index] + task_.segments[index].count);
            if (begin < end) {
                function(index, at(begin), other + (begin - range.begin) * bytes_, end - begin);
            }
        }
    }

    Adasum adasum_;
    Task task_;
    std::size_t bytes_;  // of an element
    std::size_t count_;
    ScratchPool::Block memory_;  // this member's elements, then what comes of another

    std::vector<std::size_t> starts_;  // of each tensor, in elements
    std::vector<AdasumDots> dots_;     // of each tensor
    std::vector<AdasumDots> other_dots_;
};

}  // namespace hvd::coll
