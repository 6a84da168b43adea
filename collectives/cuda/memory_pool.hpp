// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/cuda/device.hpp"
#include "collectives/device_tensors.hpp"

#include <cstddef>
#include <map>
#include <mutex>

namespace hvd::coll::cuda {

/// Memory of a GPU in the order of one stream: what is allocated may be used by what is put into
/// the stream afterwards, what is given back may still be in use by what was put there before.
/// Never waits for the device, as cuMemAlloc and cuMemFree may.
///
/// Thread: any.
class MemoryPool {
public:
    /// The references outlive the pool.
    MemoryPool(const Driver& driver, const Device& device, CUstream stream) noexcept
        : driver_(driver), device_(device), stream_(stream) {}
    MemoryPool(const MemoryPool&) = delete;
    MemoryPool& operator=(const MemoryPool&) = delete;
    ~MemoryPool() = default;

    /// 256-byte aligned; nullptr for 0 bytes. Throws Exception.
    [[nodiscard]] DeviceBytes allocate(std::size_t bytes);

    /// How many bytes of what is given back are kept for later, from now on.
    void set_limit(std::size_t bytes) noexcept;

    /// Gives what is kept for later back to the driver.
    void trim() noexcept { shrink_to(0); }

private:
    [[nodiscard]] DeviceBytes owned(std::byte* memory, std::size_t bytes);
    void give_back(std::byte* memory, std::size_t bytes) noexcept;
    void shrink_to(std::size_t bytes) noexcept;
    void free(std::byte* memory) noexcept;

    const Driver& driver_;
    const Device& device_;
    CUstream stream_;
    std::mutex mutex_;
    std::size_t limit_ = std::size_t{128} << 20U;  // guarded by mutex_
    std::multimap<std::size_t, std::byte*> kept_;  // guarded by mutex_; by size
    std::size_t kept_bytes_ = 0;                   // guarded by mutex_
};

}  // namespace hvd::coll::cuda
