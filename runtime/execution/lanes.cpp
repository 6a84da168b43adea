// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/lanes.hpp"

#include <utility>

namespace hvd::rt {

Lanes::~Lanes() {
    for_each_set([](SetLanes& each) { ProcessSetTable::release(*each.set); });
}

SetLanes& Lanes::of(ProcessSetEntry& set) {
    auto& all = open_[set.set.id];
    if (!all) {
        all = std::make_unique<SetLanes>(SetLanes{.set = &set});
        all->lanes.push_back(std::make_unique<Lane>(*all, nullptr, backends_));
        ProcessSetTable::keep(set);
    }
    return *all;
}

Lane& Lanes::lane_of(SetLanes& all, const DeviceList* devices) {
    for (const auto& lane : all.lanes) {  // a set has few lists
        if (lane->devices == devices) {
            return *lane;
        }
    }
    return *all.lanes.emplace_back(std::make_unique<Lane>(all, devices, backends_));
}

/// A lane's members connect before its first batch. The exchange goes through the hosts' memory, so
/// that it has its place in the order of that lane, the same on all members.
void Lanes::add(SetLanes& all, Batch batch, DeviceOrder& order) {
    Lane& lane = lane_of(all, batch.front()->devices);
    if (lane.is_on_device()) {
        order.add(lane);
    }
    add(lane, {.operations = std::move(batch)});
    if (!lane.is_connected && !std::exchange(lane.is_connecting, true)) {
        add(*all.lanes.front(), {.connects = &lane});
    }
}

void Lanes::add(Lane& lane, Queued queued) {
    if (lane.is_idle()) {
        active_.push_back(&lane);
    }
    lane.queue.push_back(std::move(queued));
}

SetLanes* Lanes::find(int process_set) const noexcept {
    const auto found = open_.find(process_set);
    return found == open_.end() ? nullptr : found->second.get();
}

void Lanes::close(int process_set) {
    const auto found = open_.find(process_set);
    if (found == open_.end()) {
        return;
    }
    auto all = std::move(found->second);
    open_.erase(found);
    if (all->is_idle()) {
        ProcessSetTable::release(*all->set);
    } else {
        closing_.push_back(std::move(all));
    }
}

void Lanes::retire_idle() {
    std::erase_if(active_, [](const Lane* lane) { return lane->is_idle(); });
    std::erase_if(closing_, [](const auto& all) {
        if (all->is_idle()) {
            ProcessSetTable::release(*all->set);
            return true;
        }
        return false;
    });
}

}  // namespace hvd::rt
