// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/lane.hpp"

#include "runtime/execution/batches.hpp"

#include <algorithm>
#include <utility>

namespace hvd::rt {

Lane::Lane(ProcessSetEntry& entry, const Backends& backends)
    : set(&entry), communicators(backends, entry.set) {}

void Lane::count_waits(std::span<Operation* const> leaders) {
    std::optional<std::chrono::steady_clock::time_point> now;
    for (const Operation* leader : leaders) {
        if (leader->is_timed && !leader->is_neutral) {
            now = now ? now : std::chrono::steady_clock::now();
            metrics.count_wait(leader->signature.op, set->set, leader->last_rank,
                               *now - leader->since);
        }
    }
}

void Lane::note_time(std::chrono::steady_clock::time_point now) {
    for (auto& each : running) {
        if (each.since == std::chrono::steady_clock::time_point{}) {
            each.since = now;
        }
    }
}

void Lane::list_in_flight(std::vector<Waiting>& list) const {
    for (const auto& each : running) {
        auto missing = each.work->missing();
        std::ranges::transform(missing, missing.begin(),
                               [&](int place) { return set->set.rank_at(place); });
        for (const Operation* operation : each.operations) {
            if (operation->name != nullptr) {
                list.push_back({.stage = Waiting::Stage::flight,
                                .process_set = set->set.id,
                                .name = operation->name->text,
                                .waiting = {set->set.rank_at(set->set.place)},
                                .missing = missing,
                                .since = each.since});
            }
        }
    }
}

void Lane::abort(const Error& cause) {
    communicators.abort(cause);
}

void Lane::fail_all(TicketTable& tickets, const Error& cause) {
    for (auto& each : std::exchange(running, {})) {
        // An aborted Work ends at its next poll, when no peer can touch the buffers any more.
        (void)each.work->poll();
        each.work.reset();
        if (!each.is_enqueued) {
            fail_batch(tickets, each.operations, cause);
        }
    }
    for (const auto& batch : std::exchange(queue, {})) {
        fail_batch(tickets, batch, cause);
    }
}

}  // namespace hvd::rt
