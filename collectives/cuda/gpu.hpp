// SPDX-License-Identifier: Apache-2.0
//
// A GPU as collectives use it: one stream in which all of them run, events, memory, kernels.
#pragma once

#include "collectives/cuda/device.hpp"
#include "collectives/cuda/handle.hpp"
#include "collectives/cuda/memory_pool.hpp"
#include "collectives/cuda/packer.hpp"
#include "collectives/cuda/quiet_turn.hpp"
#include "collectives/device_tensors.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace hvd::coll::cuda {

using GpuUuid = std::array<std::byte, 16>;

/// Every collective of the process on this GPU goes into one stream, in the order of the log, so
/// that it executes in that order: NCCL's communicators wait for each other for ever otherwise.
///
/// Thread: `quieten` and `memory` any; the others the holder of the progress lock, with
/// Device::Current.
class Gpu {
public:
    /// Loads the kernels. Throws Exception, and leaves nothing of it then. `driver` outlives the
    /// GPU, which is never destroyed while the driver may have gone.
    Gpu(const Driver& driver, int index);
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;
    ~Gpu() = default;

    [[nodiscard]] const Driver& driver() const noexcept { return driver_; }
    [[nodiscard]] const Device& device() const noexcept { return device_; }
    [[nodiscard]] int index() const noexcept { return index_; }
    [[nodiscard]] const GpuUuid& uuid() const noexcept { return uuid_; }

    /// Of all collectives.
    [[nodiscard]] CUstream stream() const noexcept { return stream_.get(); }

    /// A point after what `stream` holds now. Needs Device::Current.
    [[nodiscard]] SharedEvent record(CUstream stream);

    /// Whether all that is in `stream()` has completed. Needs Device::Current. Throws Exception.
    [[nodiscard]] bool is_idle() const;

    /// A launch of a collective, from its first call to the event that is recorded after its last
    /// one; nothing while the GPU is to be quiet.
    [[nodiscard]] QuietTurn::Turn begin_launch() { return turns_.begin_launch(); }

    /// Waits, no longer than a second, until the stream is empty; no launch begins while the result
    /// lives. Throws Exception. Thread: any but a holder of the progress lock.
    [[nodiscard]] QuietTurn::Turn quieten();

    /// An event of the framework. It is never recorded again here.
    [[nodiscard]] SharedEvent borrow(CUevent event);

    [[nodiscard]] MemoryPool& memory() noexcept { return memory_; }
    [[nodiscard]] Packer& packer() noexcept { return packer_; }

private:
    class Event;

    void give_back(CUevent event) noexcept;

    const Driver& driver_;
    int index_;
    Device device_;
    GpuUuid uuid_{};
    Handle<CUstream> stream_;
    MemoryPool memory_;
    Packer packer_;
    std::mutex mutex_;
    std::vector<CUevent> free_;  // guarded by mutex_
    QuietTurn turns_;
};

}  // namespace hvd::coll::cuda
