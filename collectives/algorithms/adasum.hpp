// SPDX-License-Identifier: Apache-2.0
//
// Adasum by halving and doubling, along the tree of adasum_tree.hpp.
//
// A level of the tree: a pair of members, each of which has the same range of two gradients'
// elements, one of the left and one of the right, exchange halves: each then has one half of both.
// Their dot products with those of the other members that share these two gradients make the whole
// ones (recursive doubling; per tensor, also where several are fused), and each combines its half.
// After the last level a member has 1/m of the result; the levels are then gone back up, and ranges
// are exchanged. Every element is combined by one member, and all get the same bits.
//
// Across hosts the first member of each host averages the gradients of all of its members before
// that, takes part for them, and sends them the result.
#pragma once

#include "collectives/algorithms/adasum_gradients.hpp"
#include "collectives/algorithms/adasum_group.hpp"
#include "collectives/algorithms/adasum_tree.hpp"
#include "collectives/algorithms/scheduled_work.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace hvd::coll {

class AdasumSchedule {
public:
    template <Endpoint At>
    AdasumSchedule(const At& at, ScratchPool& pool, const Task& task, std::span<const int> hosts)
        : group_(task.reduce == ReduceOp::adasum ? AdasumGroup(at.size(), at.place())
                                                 : AdasumGroup(hosts, at.place())),
          tree_(group_.size(), group_.place()),
          gradients_(pool, task, most_received(task)),
          own_(gradients_.whole()),
          parents_(static_cast<std::size_t>(tree_.levels())) {}

    template <Endpoint At>
    [[nodiscard]] bool advance(At& at) {
        finish_step();
        if (phase_ == Phase::over) {
            gradients_.finish();
            return false;
        }
        begin_step(at);
        return true;
    }

private:
    enum class Phase { begin, average, fold, halve, add_dots, gather, unfold, share, over };

    /// Elements that one step brings at most.
    [[nodiscard]] std::size_t most_received(const Task& task) const {
        const auto count = input_bytes(task) / size_of(task.type);
        const auto of_host = group_.is_leader() ? group_.others().size() * count : 0;
        return std::max(of_host, tree_.has_fold() ? count : (count + 1) / 2);
    }

    template <Endpoint At>
    void begin_step(At& at) {
        if (phase_ == Phase::average || phase_ == Phase::share) {
            begin_host(at);
        } else if (!group_.is_leader()) {
            return;
        } else if (phase_ == Phase::fold || phase_ == Phase::unfold) {
            begin_fold(at);
        } else if (!tree_.is_left_out()) {
            begin_pair(at);
        }
    }

    /// Gradients of a host's members to their leader, or the result to them.
    template <Endpoint At>
    void begin_host(At& at) const {
        const bool is_average = phase_ == Phase::average;
        const auto whole = gradients_.own(gradients_.whole());
        if (!group_.is_leader()) {
            if (is_average) {
                at.send(group_.leader(), whole);
            } else {
                at.recv(group_.leader(), whole);
            }
            return;
        }
        for (std::size_t index = 0; index < group_.others().size(); ++index) {
            if (is_average) {
                at.recv(group_.others()[index], gradients_.of_host(index));
            } else {
                at.send(group_.others()[index], whole);
            }
        }
    }

    template <Endpoint At>
    void begin_fold(At& at) const {
        if (!tree_.is_folded()) {
            return;
        }
        const auto whole = gradients_.whole();
        if (tree_.is_left_out() == (phase_ == Phase::fold)) {
            at.send(group_.at(tree_.neighbour()), gradients_.own(whole));
        } else {
            at.recv(group_.at(tree_.neighbour()),
                    tree_.is_left_out() ? gradients_.own(whole) : gradients_.received(whole));
        }
    }

    template <Endpoint At>
    void begin_pair(At& at) {
        if (phase_ == Phase::add_dots) {
            at.send(group_.at(tree_.partner(round_)), gradients_.dots());
            at.recv(group_.at(tree_.partner(round_)), gradients_.other_dots());
            return;
        }
        auto& parent = parents_[static_cast<std::size_t>(level_)];
        const bool is_left = tree_.is_left(level_);
        const int partner = group_.at(tree_.partner(level_));
        if (phase_ == Phase::halve) {
            parent = own_;
            own_ = parent.half(is_left);
            at.send(partner, gradients_.own(parent.half(!is_left)));
            at.recv(partner, gradients_.received(own_));
        } else {
            at.send(partner, gradients_.own(own_));
            at.recv(partner, gradients_.own(parent.half(!is_left)));
        }
    }

    /// Ends the step that is over and goes on to the next phase.
    void finish_step() {
        switch (phase_) {
            case Phase::begin:
                phase_ = group_.has_others() ? Phase::average : first_of_tree();
                break;
            case Phase::average:
                if (group_.is_leader()) {
                    gradients_.average(group_.others().size());
                }
                phase_ = first_of_tree();
                break;
            case Phase::fold:
                if (group_.is_leader() && tree_.is_folded() && !tree_.is_left_out()) {
                    gradients_.find_dots(own_, true);
                    gradients_.combine(own_, true);
                }
                phase_ = tree_.levels() > 0 ? Phase::halve : Phase::unfold;
                break;
            case Phase::halve:
                if (is_in_tree()) {
                    gradients_.find_dots(own_, tree_.is_left(level_));
                }
                round_ = 0;
                phase_ = Phase::add_dots;
                break;
            case Phase::add_dots: finish_dots(); break;
            case Phase::gather:
                own_ = parents_[static_cast<std::size_t>(level_)];
                --level_;
                phase_ = level_ >= 0        ? Phase::gather
                         : tree_.has_fold() ? Phase::unfold
                                            : after_tree();
                break;
            case Phase::unfold: phase_ = after_tree(); break;
            case Phase::share: phase_ = Phase::over; break;
            case Phase::over: break;
        }
    }

    [[nodiscard]] Phase first_of_tree() const {
        return tree_.has_fold() ? Phase::fold : tree_.levels() > 0 ? Phase::halve : after_tree();
    }

    [[nodiscard]] Phase after_tree() const {
        return group_.has_others() ? Phase::share : Phase::over;
    }

    /// Whether this member has a part in the tree's levels.
    [[nodiscard]] bool is_in_tree() const { return group_.is_leader() && !tree_.is_left_out(); }

    void finish_dots() {
        if (is_in_tree()) {
            gradients_.add_other_dots();
        }
        if (++round_ <= level_) {
            return;
        }
        if (is_in_tree()) {
            gradients_.combine(own_, tree_.is_left(level_));
        }
        const bool is_last = level_ + 1 == tree_.levels();
        phase_ = is_last ? Phase::gather : Phase::halve;
        level_ += is_last ? 0 : 1;
    }

    AdasumGroup group_;
    AdasumTree tree_;
    AdasumGradients gradients_;

    Phase phase_ = Phase::begin;
    int level_ = 0;
    int round_ = 0;                  // of add_dots
    Elements own_;                   // the range that this member has
    std::vector<Elements> parents_;  // what it was before each level
};

}  // namespace hvd::coll
