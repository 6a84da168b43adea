// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/cuda/gpu.hpp"

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::coll::cuda {

/// See DeviceTensors. The driver is opened with the first `attach`; it lasts as long as the
/// process, and so do the GPUs.
class Gpus final : public DeviceTensors {
public:
    /// `library` is the driver's name, for dlopen.
    explicit Gpus(std::string library = kDriverLibrary) : library_(std::move(library)) {}

    void attach(int device) override;
    [[nodiscard]] int first_attached() const noexcept override {
        return first_.load(std::memory_order_acquire);
    }
    [[nodiscard]] bool is_attached(int device) const noexcept override {
        return find(device) != nullptr;
    }
    [[nodiscard]] SharedEvent ready(const DevicePlace& place) override;
    [[nodiscard]] DeviceBytes allocate(int device, std::size_t bytes) override;
    [[nodiscard]] DeviceBytes upload(int device, std::span<const std::byte> bytes) override;
    void while_quiet(const std::function<void()>& action) override;

    /// An attached one. Throws Exception for another.
    [[nodiscard]] Gpu& gpu(int device) const;

    /// All that are attached.
    [[nodiscard]] std::vector<Gpu*> all() const;

    /// Whether no collective is on any of them. Throws Exception. Thread: progress lock.
    [[nodiscard]] bool are_idle() const;

private:
    /// Bytes on their way to the GPU, which may read them after the call that copies them: a host
    /// whose pageable memory the GPU reads itself does not stage them.
    struct Upload {
        std::vector<std::byte> bytes;
        SharedEvent read;
    };

    [[nodiscard]] Gpu* find(int device) const noexcept;

    std::string library_;
    std::mutex opening_;            // one opens a GPU, which may take seconds
    std::optional<Driver> driver_;  // guarded by opening_; unchanged once it is there
    std::atomic<int> first_{-1};
    mutable std::mutex mutex_;
    std::map<int, std::unique_ptr<Gpu>> gpus_;  // guarded by mutex_
    std::vector<Upload> uploads_;  // Thread: progress lock; last: their events are of the GPUs
};

}  // namespace hvd::coll::cuda
