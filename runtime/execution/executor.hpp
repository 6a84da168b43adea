// SPDX-License-Identifier: Apache-2.0
//
// Runs what the ranks have agreed on: pack, start, poll, unpack, complete.
#pragma once

#include "collectives/backend.hpp"
#include "collectives/base/tally.hpp"
#include "runtime/fusion/planner.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace hvd::rt {

/// One collective in flight at a time, the others in order. Every rank is given the same batches in
/// the same order and therefore runs the same collectives.
///
/// Thread: baton.
class Executor {
public:
    /// Picks the backend for a task; pure, so that all ranks pick the same.
    using Select = coll::Backend* (*)(std::span<const std::unique_ptr<coll::Backend>>,
                                      const coll::Task&,
                                      const coll::ProcessSet&);

    struct Setup {
        std::vector<std::unique_ptr<coll::Backend>> backends;  // at least one
        Select select = nullptr;
        coll::ProcessSet world;
    };

    /// Counted before the operations complete.
    struct Totals {
        Tally collectives;
        Tally bytes;
    };

    Executor(Setup setup, TicketTable& tickets);

    /// Takes units that are ready together, by their heads. They are fused up to so many bytes, the
    /// same on all ranks; nothing: what suits the backend.
    void enqueue(std::span<Operation* const> heads, std::optional<std::size_t> fusion_bytes);

    /// Does what can be done now. True if something moved.
    [[nodiscard]] bool step();

    [[nodiscard]] bool busy() const noexcept {
        return running_ != nullptr || !group_.empty() || !queue_.empty();
    }

    /// Fails what runs and everything later with `cause`.
    void abort(const Error& cause);

    /// Set when a collective failed: the world cannot go on.
    [[nodiscard]] const std::optional<Error>& broken() const noexcept { return broken_; }

    /// The largest fused message that suits the backend.
    [[nodiscard]] std::size_t usual_fusion_bytes() const;

    [[nodiscard]] const Totals& totals() const noexcept { return totals_; }

private:
    using Group = std::vector<Operation*>;

    void start();
    [[nodiscard]] coll::Communicator& communicator_of(coll::Backend& backend);
    void finish();
    void fail(Group& group, const Error& error);
    void complete_member(Operation& operation);
    void fill_task();
    void pack();
    void unpack();

    Setup setup_;
    std::vector<std::unique_ptr<coll::Communicator>> communicators_;  // of each backend, once used
    TicketTable& tickets_;
    std::deque<Group> queue_;
    Group group_;                     // runs, or is about to
    coll::Task task_;                 // of running_
    std::span<std::byte> workspace_;  // where it is packed, if it is
    std::unique_ptr<coll::Work> running_;
    std::optional<Error> broken_;
    Totals totals_;
};

}  // namespace hvd::rt
