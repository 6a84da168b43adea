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

HostStaging::Gpu::Gpu(const Driver& driver, int index)
    : device(driver, index),
      to_host(make_stream(driver, device)),
      to_device(make_stream(driver, device)) {}

CUstream HostStaging::Gpu::stream(Direction direction) const noexcept {
    return direction == Direction::to_host ? to_host.get() : to_device.get();
}

HostStaging::Gpu& HostStaging::gpu(int index) {
    const auto& driver = open_once(driver_, library_);
    auto found = gpus_.find(index);
    if (found == gpus_.end()) {
        found = gpus_.emplace(index, std::make_unique<Gpu>(driver, index)).first;
    }
    return *found->second;
}

/// nullptr where nothing is kept.
std::byte* HostStaging::kept(int device, std::size_t bytes) {
    const auto found = gpus_.find(device);
    if (found == gpus_.end()) {
        return nullptr;
    }
    auto& mine = *found->second;
    const auto block = mine.free.find(pinned_size(bytes));
    if (block == mine.free.end()) {
        return nullptr;
    }
    auto* const memory = block->second;
    mine.free_bytes -= block->first;
    mine.free.erase(block);
    return memory;
}

std::byte* HostStaging::new_pinned(int device, std::size_t bytes) {
    auto& mine = gpu(device);
    const Device::Current current(mine.device);
    if (mine.free_bytes > kMostKept) {
        free_kept(mine);
    }
    void* made = nullptr;
    check(*driver_, driver_->cuMemHostAlloc(&made, pinned_size(bytes), CU_MEMHOSTALLOC_PORTABLE),
          "cuMemHostAlloc");
    return static_cast<std::byte*>(made);
}

/// For a result, in the order of its copy where collectives may be on the device.
std::byte* HostStaging::on_device(int device, std::size_t bytes) {
    auto& mine = gpu(device);
    const Device::Current current(mine.device);
    CUdeviceptr made = 0;
    const bool is_in_order = devices_ != nullptr && devices_->is_attached(device);
    if (is_in_order) {
        check(*driver_, driver_->cuMemAllocAsync(&made, bytes, mine.stream(Direction::to_device)),
              "cuMemAllocAsync");
    } else {
        check(*driver_, driver_->cuMemAlloc(&made, bytes), "cuMemAlloc");
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA has addresses as numbers
    auto* const memory = reinterpret_cast<std::byte*>(made);
    if (is_in_order) {
        in_order_.insert(memory);
    }
    return memory;
}

void HostStaging::while_quiet(const std::function<void()>& action) const {
    if (devices_ != nullptr) {
        devices_->while_quiet(action);
    } else {
        action();
    }
}

Staging::Bytes HostStaging::allocate(int device, Kind kind, std::size_t bytes) {
    const GiveBack back{.staging = this, .device = device, .kind = kind, .bytes = bytes};
    if (bytes == 0) {
        return {nullptr, back};
    }
    std::byte* memory = nullptr;
    {
        const std::lock_guard lock(mutex_);
        memory = kind == Kind::device ? on_device(device, bytes) : kept(device, bytes);
    }
    if (memory == nullptr) {
        while_quiet([&] {
            const std::lock_guard lock(mutex_);
            memory = new_pinned(device, bytes);
        });
    }
    return {memory, back};
}

void HostStaging::free_kept(Gpu& gpu) noexcept {
    for (const auto& [size, memory] : gpu.free) {
        (void)driver_->cuMemFreeHost(memory);
    }
    gpu.free.clear();
    gpu.free_bytes = 0;
}

/// Memory beyond the limit is freed before the next is made: that may wait for the device.
void HostStaging::keep_or_free(Gpu& gpu, std::byte* memory, std::size_t bytes) noexcept {
    const auto size = pinned_size(bytes);
    try {
        gpu.free.emplace(size, memory);
        gpu.free_bytes += size;
    } catch (const std::bad_alloc&) {  // then it is not kept
        (void)driver_->cuMemFreeHost(memory);
    }
}

void HostStaging::give_back(std::byte* memory, int device, Kind kind, std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    auto& mine = *gpus_.find(device)->second;
    try {
        const Device::Current current(mine.device);
        if (kind == Kind::pinned) {
            keep_or_free(mine, memory, bytes);
        } else if (in_order_.erase(memory) != 0) {
            (void)driver_->cuMemFreeAsync(address(memory), mine.stream(Direction::to_device));
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
    auto* const stream = mine.stream(Direction::to_host);
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
    auto* const stream = mine.stream(direction);
    for (const auto& each : copies) {
        if (each.bytes == 0) {
            continue;
        }
        if (direction == Direction::to_host) {
            check(*driver_,
                  driver_->cuMemcpyDtoHAsync(each.on_host, address(each.on_device), each.bytes,
                                             stream),
                  "cuMemcpyDtoHAsync");
        } else {
            check(*driver_,
                  driver_->cuMemcpyHtoDAsync(address(each.on_device), each.on_host, each.bytes,
                                             stream),
                  "cuMemcpyHtoDAsync");
        }
    }
    check(*driver_, driver_->cuLaunchHostFunc(stream, call_done, call.get()), "cuLaunchHostFunc");
    (void)call.release();  // call_done deletes it
}

void HostStaging::drain() noexcept {
    const std::lock_guard lock(mutex_);
    for (auto& [index, mine] : gpus_) {
        try {
            const Device::Current current(mine->device);
            for (const auto direction : {Direction::to_host, Direction::to_device}) {
                (void)driver_->cuStreamSynchronize(mine->stream(direction));
            }
        } catch (const Exception&) {  // the driver has gone
        }
    }
}

void HostStaging::trim() noexcept {
    const auto free_all = [this] {
        const std::lock_guard lock(mutex_);
        for (auto& [index, mine] : gpus_) {
            const Device::Current current(mine->device);
            free_kept(*mine);
        }
    };
    try {
        while_quiet(free_all);
    } catch (const Exception&) {  // the driver has gone, and its memory with it
    }
}

std::unique_ptr<Staging> make_staging(DeviceTensors* devices) {
    return std::make_unique<HostStaging>(kDriverLibrary, devices);
}

}  // namespace hvd::coll::cuda
