// SPDX-License-Identifier: Apache-2.0
//
// Operations whose tensors stay on a device.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/device_tensors.hpp"
#include "runtime/tensor/operation.hpp"
#include "runtime/tensor/process_set_table.hpp"

#include <functional>
#include <span>

namespace hvd::rt {

/// Makes operations on tensors of devices ones that the devices' own backend runs, and waits for
/// what devices do.
///
/// Thread: any.
class DeviceOperations {
public:
    /// `devices`: nullptr: all tensors travel through the host. `sets`: nullptr, or those of which
    /// the devices' backend runs nothing but sums, and the like, where they are on several hosts.
    DeviceOperations(coll::DeviceTensors* devices, const ProcessSetTable* sets) noexcept
        : devices_(devices), sets_(sets) {}

    /// Of operations that are about to be submitted: those that the device's backend can run stay
    /// there, the others are left as they are. Errors: those of the device.
    [[nodiscard]] Status prepare(std::span<Operation* const> operations) const;

private:
    /// A join has no tensor, but may name the GPU on which the rank takes part in what others do.
    [[nodiscard]] Status attach_joins(std::span<Operation* const> operations) const;
    [[nodiscard]] bool can_stay(const Operation& operation) const;

    coll::DeviceTensors* devices_;
    const ProcessSetTable* sets_;
};

/// Waits until the device has come to the event: true; false where the deadline passes first.
/// Errors: what `health` says, where the result before the event may be nothing.
[[nodiscard]] Result<bool> wait_for_device(const coll::DeviceEvent& event,
                                           Deadline deadline,
                                           const std::function<Status()>& health);

/// Makes `stream` wait for operations that have ended here. Errors: the device's; what `health`
/// says, where a result may be nothing.
[[nodiscard]] Status hold_back_stream(std::span<Operation* const> operations,
                                      void* stream,
                                      const std::function<Status()>& health);

}  // namespace hvd::rt
