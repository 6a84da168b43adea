// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/base/result.hpp"

#include <memory>
#include <span>
#include <vector>

namespace hvd::rt {

/// The backends of a world, and the choice among them.
struct Backends {
    /// Pure, so that all members of the set pick the same. Null where no backend runs the task.
    using Select = coll::Backend* (*)(std::span<const std::unique_ptr<coll::Backend>>,
                                      const coll::Task&,
                                      const coll::ProcessSet&);

    std::vector<std::unique_ptr<coll::Backend>> all;  // at least one
    Select select = nullptr;

    [[nodiscard]] coll::Backend* pick(const coll::Task& task, const coll::ProcessSet& set) const {
        return select(all, task, set);
    }
};

/// The communicators of one lane, by backend; each is made when the first task goes that way.
///
/// Thread: progress lock.
class Communicators {
public:
    /// Both outlive this.
    Communicators(const Backends& backends, const coll::ProcessSet& set);

    struct Choice {
        coll::Backend* backend;
        coll::Communicator* communicator;
    };

    /// The way of the task.
    [[nodiscard]] Result<Choice> choose(const coll::Task& task);

    void abort(const Error& cause);

private:
    const Backends& backends_;
    const coll::ProcessSet& set_;
    std::vector<std::unique_ptr<coll::Communicator>> communicators_;  // as in `backends_`
};

}  // namespace hvd::rt
