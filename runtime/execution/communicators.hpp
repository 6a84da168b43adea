// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/base/result.hpp"

#include <cstddef>
#include <memory>
#include <optional>
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

/// The exchange of what the members of a communicator need to know of each other before its first
/// task.
struct Connection {
    coll::Communicator* communicator = nullptr;
    std::vector<std::byte> infos;  // of all members by place, and once more the own one
    std::size_t bytes = 0;         // of all
    std::unique_ptr<coll::Work> work;

    /// Once the work is done.
    void finish() { communicator->connect(std::span(infos).first(bytes)); }
};

/// The communicators of one process set, by backend; each is made when the first task goes that
/// way.
///
/// Thread: progress lock.
class Communicators {
public:
    /// Both outlive this.
    Communicators(const Backends& backends, const coll::ProcessSet& set);

    struct Choice {
        coll::Backend* backend;
        coll::Communicator* communicator;
        std::size_t index;
    };

    /// The way of the task.
    [[nodiscard]] Result<Choice> choose(const coll::Task& task);

    /// Begins the exchange, an allgather of this set through the host's memory. Nothing where there
    /// is no need, or no more.
    [[nodiscard]] Result<std::optional<Connection>> connect(const Choice& choice);

    void abort(const Error& cause);

private:
    struct Entry {
        std::unique_ptr<coll::Communicator> communicator;
        bool has_connected = false;
    };

    const Backends& backends_;
    const coll::ProcessSet& set_;
    std::vector<Entry> entries_;  // as in `backends_`
};

}  // namespace hvd::rt
