// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/gpu.hpp"

#include <cstring>
#include <new>

namespace hvd::coll::cuda {
namespace {

CUstream make_stream(const Device& device) {
    const Device::Current current(device);
    return device.make_stream();
}

GpuUuid find_uuid(const Driver& driver, int index) {
    CUdevice device = 0;
    check(driver, driver.cuDeviceGet(&device, index), "cuDeviceGet");
    CUuuid found{};
    check(driver, driver.cuDeviceGetUuid(&found, device), "cuDeviceGetUuid");
    GpuUuid uuid;
    std::memcpy(uuid.data(), &found, uuid.size());
    return uuid;
}

}  // namespace

/// `owner` gets a recorded event back; nullptr: it is not ours.
class Gpu::Event final : public DeviceEvent {
public:
    Event(Gpu& gpu, CUevent event, bool is_ours) : gpu_(gpu), event_(event), is_ours_(is_ours) {}
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() override {
        if (is_ours_) {
            gpu_.give_back(event_);
        }
    }

    [[nodiscard]] bool is_complete() const override {
        const Device::Current current(gpu_.device_);
        const auto result = gpu_.driver_.cuEventQuery(event_);
        if (result == CUDA_ERROR_NOT_READY) {
            return false;
        }
        check(gpu_.driver_, result, "cuEventQuery");
        return true;
    }

    void hold_back(void* stream) const override {
        const Device::Current current(gpu_.device_);
        gpu_.device_.wait_for_event(static_cast<CUstream>(stream), event_);
    }

private:
    Gpu& gpu_;
    CUevent event_;
    bool is_ours_;
};

Gpu::Gpu(const Driver& driver, int index)
    : driver_(driver),
      index_(index),
      device_(driver, index),
      uuid_(find_uuid(driver, index)),
      stream_(make_stream(device_)),
      memory_(driver, device_, stream_),
      packer_(driver, device_, index, stream_) {}

SharedEvent Gpu::record(CUstream stream) {
    CUevent event = nullptr;
    {
        const std::lock_guard lock(mutex_);
        if (!free_.empty()) {
            event = free_.back();
            free_.pop_back();
        }
    }
    if (event == nullptr) {
        check(driver_, driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    }
    auto shared = std::make_shared<Event>(*this, event, true);
    check(driver_, driver_.cuEventRecord(event, stream), "cuEventRecord");
    return shared;
}

SharedEvent Gpu::borrow(CUevent event) {
    return std::make_shared<Event>(*this, event, false);
}

void Gpu::give_back(CUevent event) noexcept {
    const std::lock_guard lock(mutex_);
    try {
        free_.push_back(event);
    } catch (const std::bad_alloc&) {  // then it is lost
    }
}

}  // namespace hvd::coll::cuda
