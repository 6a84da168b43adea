// SPDX-License-Identifier: Apache-2.0
//
// The seam to devices for tensors that stay on them: when they are ready, and memory for results.
#pragma once

#include "collectives/staging.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace hvd::coll {

/// A point in the order of a device. Whoever may still ask for it shares it.
///
/// Thread: any.
class DeviceEvent {
public:
    virtual ~DeviceEvent() = default;
    DeviceEvent(const DeviceEvent&) = delete;
    DeviceEvent& operator=(const DeviceEvent&) = delete;

    /// Whether the device has come to it. Never blocks. Throws Exception.
    [[nodiscard]] virtual bool is_complete() const = 0;

    /// Makes what is put into `stream` from now on wait for it; the host does not. nullptr is the
    /// default stream. Throws Exception.
    virtual void hold_back(void* stream) const = 0;

    /// The work of the device before this point was aborted and may have left nothing. Set before
    /// the event completes.
    void invalidate() noexcept { is_valid_.store(false, std::memory_order_release); }
    [[nodiscard]] bool is_valid() const noexcept {
        return is_valid_.load(std::memory_order_acquire);
    }

protected:
    DeviceEvent() = default;

private:
    std::atomic<bool> is_valid_{true};
};

using SharedEvent = std::shared_ptr<DeviceEvent>;

/// Memory of a device, which goes back to where it came from.
using DeviceBytes = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

/// The devices of this process. Every function throws Exception where the device cannot do it.
///
/// Thread: any.
class DeviceTensors {
public:
    virtual ~DeviceTensors() = default;
    DeviceTensors(const DeviceTensors&) = delete;
    DeviceTensors& operator=(const DeviceTensors&) = delete;

    /// Loads what collectives on the device need; takes seconds the first time.
    virtual void attach(int device) = 0;

    /// The device that was attached first; -1: none.
    [[nodiscard]] virtual int first_attached() const noexcept = 0;
    [[nodiscard]] virtual bool is_attached(int device) const noexcept = 0;

    /// When the tensors of the place are ready: after what its stream holds now, or its event.
    [[nodiscard]] virtual SharedEvent ready(const DevicePlace& place) = 0;

    /// Memory of an attached device, for what its collectives write from now on; 256-byte aligned.
    /// nullptr for 0 bytes.
    [[nodiscard]] virtual DeviceBytes allocate(int device, std::size_t bytes) = 0;

    /// The same with a copy of `bytes` for what its collectives read from now on. Thread: progress
    /// lock.
    [[nodiscard]] virtual DeviceBytes upload(int device, std::span<const std::byte> bytes) = 0;

    /// Calls `action`, which may synchronise devices, while no collective is on any of them: waits
    /// for those that are there, and holds others back until `action` has returned. Where that
    /// takes more than a second for a device `action` comes all the same. Never with the progress
    /// lock.
    virtual void while_quiet(const std::function<void()>& action) = 0;

protected:
    DeviceTensors() = default;
};

}  // namespace hvd::coll
