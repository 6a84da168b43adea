// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/lane.hpp"

#include "runtime/execution/batches.hpp"

#include <algorithm>
#include <utility>

namespace hvd::rt {

bool SetLanes::is_idle() const noexcept {
    return std::ranges::all_of(lanes, [](const auto& lane) { return lane->is_idle(); });
}

bool SetLanes::has_room() const noexcept {
    return std::ranges::all_of(lanes, [](const auto& lane) { return lane->has_room(); });
}

void SetLanes::count_waits(std::span<Operation* const> leaders) {
    std::optional<std::chrono::steady_clock::time_point> now;
    for (const Operation* leader : leaders) {
        if (leader->is_timed && !leader->is_neutral) {
            now = now ? now : std::chrono::steady_clock::now();
            metrics.count_wait(leader->signature.op, set->set, leader->last_rank,
                               *now - leader->since);
        }
    }
}

void SetLanes::abort(TicketTable& tickets, DeviceOrder& order) {
    for (const auto& lane : lanes) {
        lane->abort(*end);
        order.remove(*lane);
    }
    for (const auto& lane : lanes) {
        lane->fail_all(tickets, *end);
    }
}

Lane::Lane(SetLanes& all, const DeviceList* list, const Backends& backends)
    : siblings(&all),
      devices(list),
      communicators(backends, all.set->set),
      is_connected(list == nullptr) {}

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
                               [&](int place) { return set().rank_at(place); });
        for (const Operation* operation : each.operations) {
            if (operation->name != nullptr) {
                list.push_back({.stage = Waiting::Stage::flight,
                                .process_set = set().id,
                                .name = operation->name->text,
                                .waiting = {set().rank_at(set().place)},
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
    for (const auto& waiting : std::exchange(queue, {})) {
        fail_batch(tickets, waiting.operations, cause);
    }
}

}  // namespace hvd::rt
