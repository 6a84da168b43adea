// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/gpu.hpp"

#include "collectives/base/deadline.hpp"

#include <chrono>
#include <cstring>
#include <new>
#include <thread>

namespace hvd::coll::cuda {
namespace {

constexpr std::chrono::seconds kQuietLimit{1};
constexpr std::chrono::microseconds kPause{50};

GpuUuid find_uuid(const Driver& driver, const Device& device) {
    CUuuid found{};
    check(driver, driver.cuDeviceGetUuid(&found, device.handle()), "cuDeviceGetUuid");
    GpuUuid uuid;
    std::memcpy(uuid.data(), &found, uuid.size());
    return uuid;
}

}  // namespace

/// An event that the GPU recorded, which it gets back, or one that is the framework's.
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
        return gpu_.device_.is_complete(event_);
    }

    void hold_back(void* stream) const override {
        const Device::Current current(gpu_.device_);
        auto* const other = static_cast<CUstream>(stream);
        if (other != gpu_.stream()) {
            gpu_.device_.refuse_capture(other);
        }
        gpu_.device_.wait_for_event(other, event_);
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
      uuid_(find_uuid(driver, device_)),
      stream_(make_stream(driver, device_)),
      memory_(driver, device_, stream()),
      packer_(driver, device_, stream()) {}

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

bool Gpu::is_idle() const {
    const auto result = driver_.cuStreamQuery(stream());
    if (result == CUDA_ERROR_NOT_READY) {
        return false;
    }
    check(driver_, result, "cuStreamQuery");
    return true;
}

QuietTurn::Turn Gpu::quieten() {
    auto quiet = turns_.hold_launches();
    const auto limit = Deadline::in(kQuietLimit);
    const Device::Current current(device_);
    while ((turns_.has_launches() || !is_idle()) && !limit.has_passed()) {
        std::this_thread::sleep_for(kPause);
    }
    return quiet;
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
