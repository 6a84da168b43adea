// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/device.hpp"

namespace hvd::coll::cuda {
namespace {

/// Of the innermost Device::Current of this thread.
thread_local CUcontext current_context = nullptr;

CUdevice find_device(const Driver& driver, int index) {
    check(driver, driver.cuInit(0), "cuInit");
    CUdevice device = 0;
    check(driver, driver.cuDeviceGet(&device, index), "cuDeviceGet");
    return device;
}

}  // namespace

Device::Context::Context(const Driver& driver, CUdevice device) : driver_(driver), device_(device) {
    check(driver_, driver_.cuDevicePrimaryCtxRetain(&value_, device_), "cuDevicePrimaryCtxRetain");
}

Device::Device(const Driver& driver, int index)
    : driver_(driver), handle_(find_device(driver, index)), context_(driver, handle_) {
    const Current current(*this);
    check(driver_, driver_.cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

Device::~Device() {
    try {
        const Current current(*this);
        (void)driver_.cuEventDestroy(event_);
    } catch (const Exception&) {  // the driver has gone, and the event with it
    }
}

Device::Current::Current(const Device& device)
    : driver_(current_context == device.context_.get() ? nullptr : &device.driver_),
      outer_(current_context) {
    if (driver_ != nullptr) {
        check(*driver_, driver_->cuCtxPushCurrent(device.context_.get()), "cuCtxPushCurrent");
        (void)driver_->cuThreadExchangeStreamCaptureMode(&mode_);
        current_context = device.context_.get();
    }
}

Device::Current::~Current() {
    if (driver_ != nullptr) {
        (void)driver_->cuThreadExchangeStreamCaptureMode(&mode_);
        CUcontext ended = nullptr;
        (void)driver_->cuCtxPopCurrent(&ended);
        current_context = outer_;
    }
}

bool Device::is_complete(CUevent event) const {
    const auto result = driver_.cuEventQuery(event);
    if (result == CUDA_ERROR_NOT_READY) {
        return false;
    }
    check(driver_, result, "cuEventQuery");
    return true;
}

CUstream Device::make_stream() const {
    int lowest = 0;
    int highest = 0;
    check(driver_, driver_.cuCtxGetStreamPriorityRange(&lowest, &highest),
          "cuCtxGetStreamPriorityRange");
    CUstream stream = nullptr;
    check(driver_, driver_.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, highest),
          "cuStreamCreateWithPriority");
    return stream;
}

void Device::refuse_capture(CUstream stream) const {
    auto status = CU_STREAM_CAPTURE_STATUS_NONE;
    check(driver_, driver_.cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing");
    if (status != CU_STREAM_CAPTURE_STATUS_NONE) {
        throw Exception(
            {Errc::unsupported,
             "the stream is capturing a CUDA graph: collectives cannot be part of a graph, "
             "submit and await them outside of the capture"});
    }
}

void Device::wait_for_stream(CUstream stream, CUstream other) {
    refuse_capture(other);
    check(driver_, driver_.cuEventRecord(event_, other), "cuEventRecord");
    wait_for_event(stream, event_);
}

void Device::wait_for_event(CUstream stream, CUevent event) const {
    check(driver_, driver_.cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
}

}  // namespace hvd::coll::cuda
