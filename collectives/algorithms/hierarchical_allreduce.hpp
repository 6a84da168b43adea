// SPDX-License-Identifier: Apache-2.0
//
// Allreduce of a set whose hosts have several members each: of all that its members send, a host
// sends 2 (h-1)/h of the tensor to h hosts, and not that for each of them. The elements are cut
// into as many slices as a host has members. On each host a member collects one slice and adds it
// up; it does the same with its partners, who have the same slice on the other hosts, by parts of
// the slice; then the results go back the same way (Mikami et al., "Massively Distributed SGD",
// arXiv:1811.05233, with hosts as the rows of its torus). Every element is the sum of the hosts'
// sums, each in the order of the places.
#pragma once

#include "collectives/algorithms/host_grid.hpp"
#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/algorithms/scheduled_work.hpp"
#include "collectives/algorithms/scratch.hpp"
#include "collectives/reduce/two_stage_reducer.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hvd::coll {

class HierarchicalAllreduceSchedule {
public:
    /// Whether the task gains by it: two steps more cost more than they save where it is small.
    [[nodiscard]] static bool suits(const Task& task) {
        return TwoStageReducer::can(task) && input_bytes(task) >= kSmallestBytes;
    }

    /// `grid` outlives it.
    template <Endpoint At>
    HierarchicalAllreduceSchedule(const At& at,
                                  ScratchPool& pool,
                                  const Task& task,
                                  const HostGrid& grid)
        : grid_(grid),
          element_bytes_(size_of(task.type)),
          reducer_(task, static_cast<int>(grid.on_host().size()), at.size()),
          lists_(task) {
        const auto columns = grid.on_host().size();
        const auto elements =
            std::min(lists_.bytes() / element_bytes_, kScratchBytes / reducer_.partial_bytes() / 3);
        round_bytes_ = elements * element_bytes_;
        const auto slice = elements / columns + 1;
        inputs_of_ = slice * element_bytes_;
        parts_of_ = (slice / grid.across().size() + 1) * reducer_.partial_bytes();
        inputs_at_ = slice * reducer_.partial_bytes();
        parts_at_ = inputs_at_ + (inputs_of_ * columns + kAlignment - 1) / kAlignment * kAlignment;
        scratch_ = pool.take(parts_at_ + parts_of_ * grid.across().size());
        inputs_.resize(columns);
        partials_.resize(grid.across().size());
    }

    template <Endpoint At>
    [[nodiscard]] bool advance(At& at) {
        switch (step_) {
            case Step::begin: break;
            case Step::collect_on_host:
                add_up();
                collect_across(at);
                return true;
            case Step::collect_across:
                finish();
                spread_across(at);
                return true;
            case Step::spread_across: spread_on_host(at); return true;
            case Step::spread_on_host: done_ += round().size(); break;
        }
        if (done_ == lists_.bytes()) {
            return false;
        }
        collect_on_host(at);
        return true;
    }

private:
    static constexpr std::size_t kSmallestBytes = std::size_t{64} << 10;
    static constexpr std::size_t kScratchBytes = std::size_t{32} << 20;
    static constexpr std::size_t kAlignment = 16;

    enum class Step { begin, collect_on_host, collect_across, spread_across, spread_on_host };

    [[nodiscard]] Range round() const noexcept {
        return {done_, std::min(done_ + round_bytes_, lists_.bytes())};
    }
    /// The slice of a column.
    [[nodiscard]] Range slice_of(std::size_t column) const noexcept {
        return round().slice(column, grid_.on_host().size(), element_bytes_);
    }
    /// The part of this column's slice that a host adds up.
    [[nodiscard]] Range part_of(std::size_t host) const noexcept {
        return slice_of(grid_.column()).slice(host, grid_.across().size(), element_bytes_);
    }

    // Scratch memory: partial results of this column's slice, the inputs of this host's members for
    // it, and the partial results of the partners for this host's part.
    [[nodiscard]] std::byte* partial_at(std::size_t byte) const noexcept {
        const auto slice = slice_of(grid_.column());
        return scratch_.data() + (byte - slice.begin) / element_bytes_ * reducer_.partial_bytes();
    }
    [[nodiscard]] std::byte* input_of(std::size_t column) const noexcept {
        return scratch_.data() + inputs_at_ + inputs_of_ * column;
    }
    [[nodiscard]] std::byte* part_from(std::size_t host) const noexcept {
        return scratch_.data() + parts_at_ + parts_of_ * host;
    }
    [[nodiscard]] std::size_t partial_bytes(Range range) const noexcept {
        return range.size() / element_bytes_ * reducer_.partial_bytes();
    }

    /// Calls `function(index, place)` for the others of a list of places, the next one first.
    template <class Function>
    static void for_each_other(const std::vector<int>& places, std::size_t own, Function function) {
        for (std::size_t step = 1; step < places.size(); ++step) {
            const auto index = (own + step) % places.size();
            function(index, places[index]);
        }
    }

    template <Endpoint At>
    void collect_on_host(At& at) {
        step_ = Step::collect_on_host;
        const auto own = slice_of(grid_.column());
        for_each_other(grid_.on_host(), grid_.column(), [&](std::size_t column, int place) {
            const auto theirs = slice_of(column);
            send_range(at, place, lists_.in, theirs.begin, theirs.end);
            if (own.size() != 0) {
                at.recv(place, {input_of(column), own.size()});
            }
        });
    }

    void add_up() {
        lists_.in.for_each(
            slice_of(grid_.column()).begin, slice_of(grid_.column()).end,
            [&](const std::byte* from, std::size_t bytes, std::size_t offset) {
                for (std::size_t column = 0; column < inputs_.size(); ++column) {
                    inputs_[column] = column == grid_.column() ? from : input_of(column) + offset;
                }
                reducer_.add_up(inputs_, partial_at(slice_of(grid_.column()).begin + offset),
                                bytes / element_bytes_);
            });
    }

    template <Endpoint At>
    void collect_across(At& at) {
        step_ = Step::collect_across;
        const auto own = part_of(grid_.host());
        for_each_other(grid_.across(), grid_.host(), [&](std::size_t host, int place) {
            const auto theirs = part_of(host);
            if (theirs.size() != 0) {
                at.send(place, {partial_at(theirs.begin), partial_bytes(theirs)});
            }
            if (own.size() != 0) {
                at.recv(place, {part_from(host), partial_bytes(own)});
            }
        });
    }

    void finish() {
        const auto own = part_of(grid_.host());
        lists_.out.for_each(
            own.begin, own.end, [&](std::byte* to, std::size_t bytes, std::size_t offset) {
                const auto partial_offset = offset / element_bytes_ * reducer_.partial_bytes();
                for (std::size_t host = 0; host < partials_.size(); ++host) {
                    partials_[host] = host == grid_.host() ? partial_at(own.begin + offset)
                                                           : part_from(host) + partial_offset;
                }
                reducer_.finish(partials_, to, bytes / element_bytes_);
            });
    }

    template <Endpoint At>
    void spread_across(At& at) {
        step_ = Step::spread_across;
        spread(at, grid_.across(), grid_.host(), [&](std::size_t host) { return part_of(host); });
    }

    template <Endpoint At>
    void spread_on_host(At& at) {
        step_ = Step::spread_on_host;
        spread(at, grid_.on_host(), grid_.column(),
               [&](std::size_t column) { return slice_of(column); });
    }

    /// Each of the places sends its range of the result to the others.
    template <Endpoint At, class RangeOf>
    void spread(At& at, const std::vector<int>& places, std::size_t own, RangeOf range_of) {
        const auto mine = range_of(own);
        for_each_other(places, own, [&](std::size_t index, int place) {
            const auto theirs = range_of(index);
            send_range(at, place, lists_.out, mine.begin, mine.end);
            recv_range(at, place, lists_.out, theirs.begin, theirs.end);
        });
    }

    const HostGrid& grid_;
    std::size_t element_bytes_;
    TwoStageReducer reducer_;
    TaskLists lists_;
    std::size_t round_bytes_ = 0;
    std::size_t inputs_at_ = 0;  // in the scratch memory
    std::size_t inputs_of_ = 0;  // bytes for each member of this host
    std::size_t parts_at_ = 0;
    std::size_t parts_of_ = 0;  // bytes for each host
    ScratchPool::Block scratch_;
    std::vector<const std::byte*> inputs_;  // for `add_up`
    std::vector<std::byte*> partials_;      // for `finish`
    std::size_t done_ = 0;
    Step step_ = Step::begin;
};

}  // namespace hvd::coll
