// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/lanes.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace hvd::rt {

Lanes::~Lanes() {
    for_each([](Lane& lane) { ProcessSetTable::release(*lane.set); });
}

Lane& Lanes::of(ProcessSetEntry& set) {
    auto& lane = open_[set.set.id];
    if (!lane) {
        lane = std::make_unique<Lane>(set, backends_);
        ProcessSetTable::keep(set);
    }
    return *lane;
}

Lane* Lanes::find(int process_set) const noexcept {
    const auto found = open_.find(process_set);
    return found == open_.end() ? nullptr : found->second.get();
}

void Lanes::activate(Lane& lane) {
    if (lane.is_idle()) {
        active_.push_back(&lane);
    }
}

void Lanes::close(int process_set) {
    const auto found = open_.find(process_set);
    if (found == open_.end()) {
        return;
    }
    auto lane = std::move(found->second);
    open_.erase(found);
    if (lane->is_idle()) {
        ProcessSetTable::release(*lane->set);
    } else {
        closing_.push_back(std::move(lane));
    }
}

void Lanes::retire_idle() {
    for (std::size_t index = 0; index < active_.size();) {
        Lane& lane = *active_[index];
        if (!lane.is_idle()) {
            ++index;
            continue;
        }
        active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(index));
        const auto closing = std::ranges::find(closing_, &lane, &std::unique_ptr<Lane>::get);
        if (closing != closing_.end()) {
            ProcessSetTable::release(*lane.set);
            closing_.erase(closing);
        }
    }
}

}  // namespace hvd::rt
