// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/memory_pool.hpp"

#include <new>
#include <utility>

namespace hvd::coll::cuda {
namespace {

constexpr std::size_t kStep = std::size_t{64} * 1024;       // sizes are rounded up to it
constexpr std::size_t kMostKept = std::size_t{128} << 20U;  // bytes

std::size_t rounded(std::size_t bytes) {
    return (bytes + kStep - 1) / kStep * kStep;
}

}  // namespace

DeviceBytes MemoryPool::allocate(std::size_t bytes) {
    if (bytes == 0) {
        return {nullptr, [](std::byte*) {}};
    }
    const auto size = rounded(bytes);
    const auto back = [this, size](std::byte* memory) { give_back(memory, size); };
    {
        const std::lock_guard lock(mutex_);
        const auto found = kept_.lower_bound(size);
        if (found != kept_.end() && found->first / 2 <= size) {
            auto* const memory = found->second;
            const auto kept_size = found->first;
            kept_bytes_ -= kept_size;
            kept_.erase(found);
            return {memory, [this, kept_size](std::byte* used) { give_back(used, kept_size); }};
        }
    }
    const Device::Current current(device_);
    CUdeviceptr made = 0;
    check(driver_, driver_.cuMemAllocAsync(&made, size, stream_), "cuMemAllocAsync");
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA has addresses as numbers
    return {reinterpret_cast<std::byte*>(made), back};
}

void MemoryPool::give_back(std::byte* memory, std::size_t bytes) noexcept {
    {
        const std::lock_guard lock(mutex_);
        if (kept_bytes_ + bytes <= kMostKept) {
            try {
                kept_.emplace(bytes, memory);
                kept_bytes_ += bytes;
                return;
            } catch (const std::bad_alloc&) {  // then it is not kept
            }
        }
    }
    free(memory);
}

void MemoryPool::free(std::byte* memory) noexcept {
    try {
        const Device::Current current(device_);
        (void)driver_.cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(memory), stream_);
    } catch (const Exception&) {  // the driver has gone, and its memory with it
    }
}

void MemoryPool::trim() noexcept {
    decltype(kept_) kept;
    {
        const std::lock_guard lock(mutex_);
        kept = std::exchange(kept_, {});
        kept_bytes_ = 0;
    }
    for (const auto& [size, memory] : kept) {
        free(memory);
    }
}

}  // namespace hvd::coll::cuda
