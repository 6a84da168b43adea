// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/memory_pool.hpp"

#include <iterator>
#include <new>

namespace hvd::coll::cuda {
namespace {

constexpr std::size_t kStep = std::size_t{64} * 1024;  // sizes are rounded up to it

std::size_t rounded(std::size_t bytes) {
    return (bytes + kStep - 1) / kStep * kStep;
}

}  // namespace

DeviceBytes MemoryPool::allocate(std::size_t bytes) {
    if (bytes == 0) {
        return {nullptr, [](std::byte*) {}};
    }
    const auto size = rounded(bytes);
    {
        const std::lock_guard lock(mutex_);
        const auto found = kept_.lower_bound(size);
        if (found != kept_.end() && found->first / 2 <= size) {
            const auto [kept_size, memory] = *found;
            kept_bytes_ -= kept_size;
            kept_.erase(found);
            return owned(memory, kept_size);
        }
    }
    const Device::Current current(device_);
    CUdeviceptr made = 0;
    auto result = driver_.cuMemAllocAsync(&made, size, stream_);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        trim();  // what is kept has other sizes
        result = driver_.cuMemAllocAsync(&made, size, stream_);
    }
    check(driver_, result, "cuMemAllocAsync");
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA has addresses as numbers
    return owned(reinterpret_cast<std::byte*>(made), size);
}

DeviceBytes MemoryPool::owned(std::byte* memory, std::size_t bytes) {
    return {memory, [this, bytes](std::byte* used) { give_back(used, bytes); }};
}

void MemoryPool::give_back(std::byte* memory, std::size_t bytes) noexcept {
    {
        const std::lock_guard lock(mutex_);
        if (kept_bytes_ + bytes <= limit_) {
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

void MemoryPool::set_limit(std::size_t bytes) noexcept {
    {
        const std::lock_guard lock(mutex_);
        limit_ = bytes;
    }
    shrink_to(bytes);
}

/// The largest go first.
void MemoryPool::shrink_to(std::size_t bytes) noexcept {
    while (true) {
        std::byte* memory = nullptr;
        {
            const std::lock_guard lock(mutex_);
            if (kept_bytes_ <= bytes) {
                return;
            }
            const auto largest = std::prev(kept_.end());
            kept_bytes_ -= largest->first;
            memory = largest->second;
            kept_.erase(largest);
        }
        free(memory);
    }
}

}  // namespace hvd::coll::cuda
