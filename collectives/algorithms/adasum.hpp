// SPDX-License-Identifier: Apache-2.0
//
// Adasum of any number of members, by halving and doubling.
//
// The tree. Of n members, m is the largest power of two that is at most n. First the 2 (n - m)
// lowest places are combined in neighbouring pairs, (0, 1), (2, 3), ..., so that m gradients are
// left, in the order of their places. Of these, neighbours are combined, then neighbouring pairs,
// and so on: 0 to 2 of 3 members are ((0 1) 2); 0 to 4 of 5 are (((0 1) 2) (3 4)).
//
// A level of the tree: a pair of members, each of which has the same range of two gradients'
// elements, one of the left and one of the right, exchange halves: each then has one half of both.
// Their dot products with those of the other members that share these two gradients make the whole
// ones (recursive doubling; per tensor, also where several are fused), and each combines its half.
// After the last level a member has 1/m of the result; the levels are then gone back up, and ranges
// are exchanged. Every element is combined by one member, and all get the same bits.
#pragma once

#include "collectives/algorithms/scheduled_work.hpp"
#include "collectives/algorithms/scratch.hpp"
#include "collectives/reduce/adasum.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

namespace hvd::coll {

class AdasumSchedule {
public:
    template <Endpoint At>
    AdasumSchedule(const At& at, ScratchPool& pool, const Task& task)
        : adasum_(task),
          task_(task),
          bytes_(adasum_.work_bytes()),
          members_(static_cast<int>(std::bit_floor(static_cast<unsigned>(at.size())))),
          extra_(at.size() - members_),
          levels_(std::countr_zero(static_cast<unsigned>(members_))),
          place_(at.place()),
          is_left_out_(place_ < 2 * extra_ && place_ % 2 == 1),
          index_(place_ < 2 * extra_ ? place_ / 2 : place_ - extra_),
          count_(input_bytes(task) / size_of(task.type)),
          memory_(pool.take((count_ + received_count()) * bytes_)),
          work_(memory_.data()),
          received_(work_ + count_ * bytes_),
          own_{0, count_},
          parents_(static_cast<std::size_t>(levels_)),
          dots_(task.segments.size()),
          other_dots_(task.segments.size()) {
        std::size_t start = 0;
        for (const auto& segment : task.segments) {
            adasum_.widen(segment.in, work_ + start * bytes_, segment.count);
            starts_.push_back(start);
            start += segment.count;
        }
    }

    template <Endpoint At>
    [[nodiscard]] bool advance(At& at) {
        finish_step();
        if (phase_ == Phase::over) {
            for (std::size_t index = 0; index < starts_.size(); ++index) {
                const auto& segment = task_.segments[index];
                adasum_.narrow(work_ + starts_[index] * bytes_, segment.out, segment.count);
            }
            return false;
        }
        begin_step(at);
        return true;
    }

private:
    enum class Phase { begin, fold, halve, add_dots, gather, unfold, over };

    struct Elements {
        std::size_t begin = 0;
        std::size_t end = 0;
        [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
    };

    /// Elements that one step brings at most.
    [[nodiscard]] std::size_t received_count() const noexcept {
        return extra_ > 0 ? count_ : (count_ + 1) / 2;
    }

    /// Where the gradient number `index` of a level lives.
    [[nodiscard]] int place_of(int index) const noexcept {
        return index < extra_ ? 2 * index : index + extra_;
    }
    [[nodiscard]] bool is_left(int level) const noexcept { return ((index_ >> level) & 1) == 0; }
    [[nodiscard]] int partner(int level) const noexcept { return place_of(index_ ^ (1 << level)); }

    /// Half of a range: the first for the left of a pair.
    [[nodiscard]] static Elements half_of(Elements whole, bool first) noexcept {
        const auto middle = whole.begin + whole.size() / 2;
        return first ? Elements{whole.begin, middle} : Elements{middle, whole.end};
    }

    [[nodiscard]] std::span<std::byte> work(Elements range) const noexcept {
        return {work_ + range.begin * bytes_, range.size() * bytes_};
    }

    template <Endpoint At>
    void begin_step(At& at) {
        if (phase_ == Phase::fold || phase_ == Phase::unfold) {
            begin_fold(at);
        } else if (!is_left_out_) {
            begin_pair(at);
        }
    }

    template <Endpoint At>
    void begin_fold(At& at) const {
        if (place_ >= 2 * extra_) {
            return;
        }
        const bool sends = is_left_out_ == (phase_ == Phase::fold);
        const auto whole = work({0, count_});
        if (sends) {
            at.send(place_ ^ 1, whole);
        } else {
            at.recv(place_ ^ 1, is_left_out_ ? whole : std::span(received_, whole.size()));
        }
    }

    template <Endpoint At>
    void begin_pair(At& at) {
        if (phase_ == Phase::add_dots) {
            at.send(partner(round_), std::as_bytes(std::span(dots_)));
            at.recv(partner(round_), std::as_writable_bytes(std::span(other_dots_)));
            return;
        }
        const auto level = static_cast<std::size_t>(level_);
        if (phase_ == Phase::halve) {
            parents_[level] = own_;
            own_ = half_of(own_, is_left(level_));
            at.send(partner(level_), work(half_of(parents_[level], !is_left(level_))));
            at.recv(partner(level_), {received_, work(own_).size()});
        } else {
            at.send(partner(level_), work(own_));
            at.recv(partner(level_), work(half_of(parents_[level], !is_left(level_))));
        }
    }

    /// Ends the step that is over and goes on to the next phase.
    void finish_step() {
        switch (phase_) {
            case Phase::begin:
                phase_ = extra_ > 0 ? Phase::fold : levels_ > 0 ? Phase::halve : Phase::over;
                break;
            case Phase::fold:
                if (place_ < 2 * extra_ && !is_left_out_) {
                    find_dots(true);
                    combine(true);
                }
                phase_ = levels_ > 0 ? Phase::halve : Phase::unfold;
                break;
            case Phase::halve:
                find_dots(is_left(level_));
                round_ = 0;
                phase_ = Phase::add_dots;
                break;
            case Phase::add_dots: finish_dots(); break;
            case Phase::gather:
                own_ = parents_[static_cast<std::size_t>(level_)];
                --level_;
                phase_ = level_ >= 0 ? Phase::gather : extra_ > 0 ? Phase::unfold : Phase::over;
                break;
            case Phase::unfold: phase_ = Phase::over; break;
            case Phase::over: break;
        }
    }

    void finish_dots() {
        for (std::size_t index = 0; index < dots_.size() && !is_left_out_; ++index) {
            dots_[index].ab += other_dots_[index].ab;
            dots_[index].aa += other_dots_[index].aa;
            dots_[index].bb += other_dots_[index].bb;
        }
        if (++round_ <= level_) {
            return;
        }
        combine(is_left(level_));
        const bool is_last = level_ + 1 == levels_;
        phase_ = is_last ? Phase::gather : Phase::halve;
        level_ += is_last ? 0 : 1;
    }

    /// Calls `function(segment, begin, count)` for each segment that overlaps this member's range.
    template <class Function>
    void for_each_segment(Function function) const {
        for (std::size_t index = 0; index < starts_.size(); ++index) {
            const auto begin = std::max(own_.begin, starts_[index]);
            const auto end = std::min(own_.end, starts_[index] + task_.segments[index].count);
            if (begin < end) {
                function(index, begin, end - begin);
            }
        }
    }

    void find_dots(bool own_is_left) {
        std::ranges::fill(dots_, AdasumDots{});
        if (is_left_out_) {
            return;
        }
        for_each_segment([&](std::size_t index, std::size_t begin, std::size_t count) {
            const auto* own = work_ + begin * bytes_;
            const auto* other = received_ + (begin - own_.begin) * bytes_;
            dots_[index] =
                own_is_left ? adasum_.dots(own, other, count) : adasum_.dots(other, own, count);
        });
    }

    void combine(bool own_is_left) {
        if (is_left_out_) {
            return;
        }
        for_each_segment([&](std::size_t index, std::size_t begin, std::size_t count) {
            auto* own = work_ + begin * bytes_;
            const auto* other = received_ + (begin - own_.begin) * bytes_;
            adasum_.combine(dots_[index], own_is_left ? own : other, own_is_left ? other : own, own,
                            count);
        });
    }

    Adasum adasum_;
    Task task_;
    std::size_t bytes_;  // of an element of the work
    int members_;        // of the tree of powers of two
    int extra_;          // places beyond
    int levels_;
    int place_;
    bool is_left_out_;  // its gradient is combined by the place before it
    int index_;         // of its gradient among those of the tree

    std::vector<std::size_t> starts_;  // of the segments, in elements
    std::size_t count_;
    ScratchPool::Block memory_;
    std::byte* work_;
    std::byte* received_;

    Phase phase_ = Phase::begin;
    int level_ = 0;
    int round_ = 0;                  // of add_dots
    Elements own_;                   // the range that this member has
    std::vector<Elements> parents_;  // what it was before each level
    std::vector<AdasumDots> dots_;   // of each segment
    std::vector<AdasumDots> other_dots_;
};

}  // namespace hvd::coll
