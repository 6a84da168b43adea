// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/execution/lane.hpp"

#include <map>
#include <memory>
#include <vector>

namespace hvd::rt {

/// The lanes of all process sets, and which of them have something to do. A lane keeps its set in
/// the ProcessSetTable.
///
/// Thread: progress lock.
class Lanes {
public:
    explicit Lanes(const Backends& backends) : backends_(backends) {}
    ~Lanes();
    Lanes(const Lanes&) = delete;
    Lanes& operator=(const Lanes&) = delete;

    /// Made when it is asked for first.
    [[nodiscard]] Lane& of(ProcessSetEntry& set);

    /// Null where none was made.
    [[nodiscard]] Lane* find(int process_set) const noexcept;

    /// Before something is added to an idle lane.
    void activate(Lane& lane);

    /// Those that are not idle.
    [[nodiscard]] const std::vector<Lane*>& active() const noexcept { return active_; }

    /// Of the sets that have not been closed.
    [[nodiscard]] const std::map<int, std::unique_ptr<Lane>>& open() const noexcept {
        return open_;
    }

    /// Nothing more of the set comes: its lane is freed once it is idle.
    void close(int process_set);

    /// Takes those out of `active` that are idle now.
    void retire_idle();

    template <class Action>
    void for_each(const Action& action) {
        for (const auto& [id, lane] : open_) {
            action(*lane);
        }
        for (const auto& lane : closing_) {
            action(*lane);
        }
    }

private:
    const Backends& backends_;
    std::map<int, std::unique_ptr<Lane>> open_;   // by process set
    std::vector<std::unique_ptr<Lane>> closing_;  // of sets that were closed; not idle
    std::vector<Lane*> active_;
};

}  // namespace hvd::rt
