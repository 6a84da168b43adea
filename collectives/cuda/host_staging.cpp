// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/host_staging.hpp"

#include "collectives/cuda/factory.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace hvd::coll::cuda {
namespace {

/// Pinned memory is kept in sizes of powers of two, so that a training step finds what the last one
/// gave back: making it takes milliseconds.
constexpr std::size_t kSmallest = 4096;
constexpr std::size_t kMostKept = std::size_t{256} << 20;

std::size_t pinned_size(std::size_t bytes) {
    return std::bit_ceil(std::max(bytes, kSmallest));
}

CUdeviceptr address(const std::byte* memory) {
    return reinterpret_cast<CUdeviceptr>(memory);
}

/// On a thread of the driver.
void call_done(void* data) noexcept {
    const std::unique_ptr<std::function<void()>> done(static_cast<std::function<void()>*>(data));
    (*done)();
}

}  // namespace

HostStaging::Gpu::Gpu(const Driver& driver, int index) : device(driver, index) {
    const Device::Current current(device);
    for (auto& stream : streams) {
        stream = device.make_stream();
    }
}

HostStaging::Gpu& HostStaging::gpu(int index) {
    const auto& driver = open_once(driver_, library_);
    auto& found = gpus_[index];
    if (!found) {
        found = std::make_unique<Gpu>(driver, index);
    }
    return *found;
}

std::byte* HostStaging::pinned(Gpu& gpu, std::size_t bytes) {
    const auto size = pinned_size(bytes);
    if (const auto kept = gpu.free.find(size); kept != gpu.free.end()) {
        auto* const memory = kept->second;
        gpu.free.erase(kept);
        gpu.free_bytes -= size;
        return memory;
    }
    void* made = nullptr;
    check(*driver_, driver_->cuMemHostAlloc(&made, size, CU_MEMHOSTALLOC_PORTABLE),
          "cuMemHostAlloc");
    return static_cast<std::byte*>(made);
}

Staging::Bytes HostStaging::allocate(int device, Kind kind, std::size_t bytes) {
    if (bytes == 0) {
        return {nullptr, GiveBack{.staging = this}};
    }
    const std::lock_guard lock(mutex_);
    auto& mine = gpu(device);
    const Device::Current current(mine.device);
    const GiveBack back{.staging = this, .device = device, .kind = kind, .bytes = bytes};
    if (kind == Kind::pinned) {
        return {pinned(mine, bytes), back};
    }
    CUdeviceptr made = 0;
    check(*driver_, driver_->cuMemAlloc(&made, bytes), "cuMemAlloc");
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA has addresses as numbers
    return {reinterpret_cast<std::byte*>(made), back};
}

void HostStaging::keep_or_free(Gpu& gpu, std::byte* memory, std::size_t bytes) noexcept {
    const auto size = pinned_size(bytes);
    try {
        if (gpu.free_bytes + size <= kMostKept) {
            gpu.free.emplace(size, memory);
            gpu.free_bytes += size;
            return;
        }
    } catch (const std::bad_alloc&) {  // then it is not kept
    }
    (void)driver_->cuMemFreeHost(memory);
}

void HostStaging::give_back(std::byte* memory, int device, Kind kind, std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    auto& mine = *gpus_.find(device)->second;
    try {
        const Device::Current current(mine.device);
        if (kind == Kind::pinned) {
            keep_or_free(mine, memory, bytes);
        } else {
            (void)driver_->cuMemFree(address(memory));
        }
    } catch (const Exception&) {  // the driver has gone, and its memory with it
    }
}

void HostStaging::follow(const DevicePlace& place) {
    const std::lock_guard lock(mutex_);
    auto& mine = gpu(place.index);
    const Device::Current current(mine.device);
    auto* const stream = mine.streams[static_cast<std::size_t>(Direction::to_host)];
    if (place.event != nullptr) {
        mine.device.wait_for_event(stream, static_cast<CUevent>(place.event));
    } else {
        mine.device.wait_for_stream(stream, static_cast<CUstream>(place.stream));
    }
}

void HostStaging::copy(int device,
                       Direction direction,
                       std::span<const Copy> copies,
                       std::function<void()> done) {
    auto call = std::make_unique<std::function<void()>>(std::move(done));
    const std::lock_guard lock(mutex_);
    auto& mine = gpu(device);
    const Device::Current current(mine.device);
    auto* const stream = mine.streams[static_cast<std::size_t>(direction)];
    for (const auto& each : copies) {
        if (each.bytes == 0) {
            continue;
        }
        check(*driver_,
              direction == Direction::to_host
                  ? driver_->cuMemcpyDtoHAsync(each.on_host, address(each.on_device), each.bytes,
                                               stream)
                  : driver_->cuMemcpyHtoDAsync(address(each.on_device), each.on_host, each.bytes,
                                               stream),
              "cuMemcpyAsync");
    }
    check(*driver_, driver_->cuLaunchHostFunc(stream, call_done, call.get()), "cuLaunchHostFunc");
    (void)call.release();  // call_done deletes it
}

void HostStaging::drain() noexcept {
    const std::lock_guard lock(mutex_);
    for (auto& [index, mine] : gpus_) {
        try {
            const Device::Current current(mine->device);
            for (auto* const stream : mine->streams) {
                (void)driver_->cuStreamSynchronize(stream);
            }
            for (const auto& [size, memory] : mine->free) {
                (void)driver_->cuMemFreeHost(memory);
            }
        } catch (const Exception&) {  // the driver has gone
        }
        mine->free.clear();
        mine->free_bytes = 0;
    }
}

std::unique_ptr<Staging> make_staging() {
    return std::make_unique<HostStaging>();
}

}  // namespace hvd::coll::cuda
