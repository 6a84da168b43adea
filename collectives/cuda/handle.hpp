// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/cuda/device.hpp"

namespace hvd::coll::cuda {

/// One resource of the driver in a device's context, which ends with this object.
///
/// Thread: its owner's.
template <class T>
class Handle {
public:
    using End = CUresult(CUDAAPI*)(T);

    /// The device outlives the handle.
    Handle(const Device& device, T value, End end) noexcept
        : device_(&device), value_(value), end_(end) {}
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() {
        try {
            const Device::Current current(*device_);
            (void)end_(value_);
        } catch (const Exception&) {  // the driver has gone, with all of its resources
        }
    }

    [[nodiscard]] T get() const noexcept { return value_; }

private:
    const Device* device_;
    T value_;
    End end_;
};

/// A stream of our own. Throws Exception.
inline Handle<CUstream> make_stream(const Driver& driver, const Device& device) {
    const Device::Current current(device);
    return {device, device.make_stream(), driver.cuStreamDestroy};
}

}  // namespace hvd::coll::cuda
