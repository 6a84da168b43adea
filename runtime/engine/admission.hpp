// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/engine/device_operations.hpp"
#include "runtime/engine/staged_copies.hpp"
#include "runtime/tensor/operation.hpp"
#include "runtime/tensor/process_set_table.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace hvd::rt {

/// The way of a call's requests to operations that are pending. What only this rank can see to be
/// wrong is an error here, and harms no other rank.
///
/// Thread: any.
class Admission {
public:
    struct Setup {
        TicketTable& tickets;
        const ProcessSetTable& sets;
        DeviceOperations devices;
        StagedCopies& copies;
        bool averages_over_contributing;  // HOROVOD_AVERAGE_OVER
        bool adasum_across_hosts;         // HOROVOD_ADASUM_HIERARCHICAL
    };

    /// The objects that `setup` refers to outlive this one.
    explicit Admission(Setup setup) noexcept : setup_(setup) {}

    /// Makes operations and their names pending, all or none. Errors: invalid_argument; those of a
    /// device.
    [[nodiscard]] Result<std::vector<Operation*>> create(std::span<Request> requests);

    /// The same of operations that are there already, as those of a plan.
    [[nodiscard]] Status claim(std::span<Operation* const> operations);

    /// Errors: those of `claim`, but for names that are pending and devices.
    [[nodiscard]] Status check(std::span<Operation* const> operations) const;

    /// Operations that became pending so far.
    [[nodiscard]] std::uint64_t submitted() const noexcept {
        return submitted_.load(std::memory_order_relaxed);
    }

private:
    [[nodiscard]] Status admit(Operation& operation) const;
    [[nodiscard]] Status admit_all(std::span<Operation* const> operations) const;

    Setup setup_;
    std::atomic<std::uint64_t> submitted_{0};
};

}  // namespace hvd::rt
