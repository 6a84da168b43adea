// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/metrics.hpp"

namespace hvd::rt {

void SetMetrics::count_wait(coll::Op op,
                            const coll::ProcessSet& set,
                            int last_rank,
                            std::chrono::nanoseconds wait) {
    auto& [totals, by_place] = at(op);
    ++totals.waits;
    totals.wait += wait;
    const auto last = std::ranges::lower_bound(set.ranks, last_rank);
    if (last == set.ranks.end() || *last != last_rank) {
        return;
    }
    by_place.resize(set.ranks.size());
    auto& arrivals = by_place[static_cast<std::size_t>(last - set.ranks.begin())];
    ++arrivals.times;
    arrivals.wait += wait;
}

void SetMetrics::list(const coll::ProcessSet& set, Metrics& list) const {
    for (std::size_t index = 0; index < operations_.size(); ++index) {
        const auto op = static_cast<coll::Op>(index);
        const auto& [totals, by_place] = operations_[index];
        if (totals.collectives == 0) {
            continue;
        }
        list.operations.push_back({.process_set = set.id, .op = op, .metrics = totals});
        for (std::size_t place = 0; place < by_place.size(); ++place) {
            if (by_place[place].times != 0) {
                list.arrivals.push_back({.process_set = set.id,
                                         .op = op,
                                         .rank = set.ranks[place],
                                         .times = by_place[place].times,
                                         .wait = by_place[place].wait});
            }
        }
    }
}

}  // namespace hvd::rt
