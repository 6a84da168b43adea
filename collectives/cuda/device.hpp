// SPDX-License-Identifier: Apache-2.0
//
// One GPU in its primary context, which the framework uses too.
#pragma once

#include "collectives/cuda/driver.hpp"

namespace hvd::coll::cuda {

/// The context of a GPU and our own streams on it. One that collectives have used lasts as long as
/// the process, which may end while the driver has gone already.
///
/// Thread: its owner's.
class Device {
public:
    /// Throws Exception. `driver` outlives the device.
    Device(const Driver& driver, int index);
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    ~Device();

    /// Makes the device's context the calling thread's while it lives, unless another one that
    /// lives has. A graph that is captured elsewhere in the process stays valid meanwhile.
    class Current {
    public:
        explicit Current(const Device& device);
        Current(const Current&) = delete;
        Current& operator=(const Current&) = delete;
        ~Current();

    private:
        const Driver* driver_;  // nullptr: another one has
        CUcontext outer_;       // of the one around it
        CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
    };

    /// Of the driver.
    [[nodiscard]] CUdevice handle() const noexcept { return handle_; }

    // All of these need `Current`, and throw Exception.

    /// Whether what was in the event's stream when it was recorded is done.
    [[nodiscard]] bool is_complete(CUevent event) const;

    /// A stream that neither waits for the default stream nor makes it wait.
    [[nodiscard]] CUstream make_stream() const;

    /// Makes `stream` wait for what is in `other` now.
    void wait_for_stream(CUstream stream, CUstream other);
    void wait_for_event(CUstream stream, CUevent event) const;

    /// Throws Exception (Errc::unsupported) where `stream` captures a graph.
    void refuse_capture(CUstream stream) const;

private:
    /// The primary context of a GPU, retained.
    class Context {
    public:
        Context(const Driver& driver, CUdevice device);
        Context(const Context&) = delete;
        Context& operator=(const Context&) = delete;
        ~Context() { (void)driver_.cuDevicePrimaryCtxRelease(device_); }

        [[nodiscard]] CUcontext get() const noexcept { return value_; }

    private:
        const Driver& driver_;
        CUdevice device_;
        CUcontext value_ = nullptr;
    };

    const Driver& driver_;
    CUdevice handle_;
    Context context_;
    CUevent event_ = nullptr;  // recorded and waited for in one call, so one is enough
};

}  // namespace hvd::coll::cuda
