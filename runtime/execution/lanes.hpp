// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/execution/lane.hpp"

#include <map>
#include <memory>
#include <vector>

namespace hvd::rt {

/// The lanes of all process sets, and which of them have something to do. A set that has lanes is
/// kept in the ProcessSetTable.
///
/// Thread: progress lock.
class Lanes {
public:
    explicit Lanes(const Backends& backends) : backends_(backends) {}
    ~Lanes();
    Lanes(const Lanes&) = delete;
    Lanes& operator=(const Lanes&) = delete;

    /// Made when they are asked for first.
    [[nodiscard]] SetLanes& of(ProcessSetEntry& set);

    /// Null where none was made.
    [[nodiscard]] SetLanes* find(int process_set) const noexcept;

    /// Adds a batch of the set to the lane of its devices, and to `order` where it is on devices.
    void add(SetLanes& all, Batch batch, DeviceOrder& order);

    /// Those that are not idle.
    [[nodiscard]] const std::vector<Lane*>& active() const noexcept { return active_; }

    /// Of the sets that have not been closed.
    [[nodiscard]] const std::map<int, std::unique_ptr<SetLanes>>& open() const noexcept {
        return open_;
    }

    /// Nothing more of the set comes: its lanes are freed once they are idle.
    void close(int process_set);

    /// Takes those out of `active` that are idle now.
    void retire_idle();

    template <class Action>
    void for_each(const Action& action) {
        for_each_set([&](SetLanes& set) {
            for (const auto& lane : set.lanes) {
                action(*lane);
            }
        });
    }

private:
    [[nodiscard]] Lane& lane_of(SetLanes& all, const DeviceList* devices);
    void add(Lane& lane, Queued queued);
    template <class Action>
    void for_each_set(const Action& action) {
        for (const auto& [id, set] : open_) {
            action(*set);
        }
        for (const auto& set : closing_) {
            action(*set);
        }
    }

    const Backends& backends_;
    std::map<int, std::unique_ptr<SetLanes>> open_;   // by process set
    std::vector<std::unique_ptr<SetLanes>> closing_;  // of sets that were closed; not idle
    std::vector<Lane*> active_;
};

}  // namespace hvd::rt
