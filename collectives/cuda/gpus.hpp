// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/cuda/gpu.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace hvd::coll::cuda {

/// See DeviceTensors. The driver is opened with the first `attach`; it lasts as long as the
/// process.
class Gpus final : public DeviceTensors {
public:
    /// `library` is the driver's name, for dlopen.
    explicit Gpus(std::string library = kDriverLibrary) : library_(std::move(library)) {}

    void attach(int device) override;
    [[nodiscard]] int attached() const noexcept override;
    [[nodiscard]] SharedEvent ready(const DevicePlace& place) override;
    [[nodiscard]] DeviceBytes allocate(std::size_t bytes) override;
    [[nodiscard]] DeviceBytes upload(std::span<const std::byte> bytes) override;
    void while_quiet(const std::function<void()>& action) override;

    /// The attached one. Throws Exception where there is none.
    [[nodiscard]] Gpu& gpu() const;

private:
    /// Bytes on their way to the GPU, which may read them after the call that copies them: a host
    /// whose pageable memory the GPU reads itself does not stage them.
    struct Upload {
        std::vector<std::byte> bytes;
        SharedEvent read;
    };

    [[nodiscard]] Gpu& open(int device);

    std::string library_;
    std::mutex mutex_;              // one attaches
    std::optional<Driver> driver_;  // guarded by mutex_; unchanged once it is there
    std::unique_ptr<Gpu> owned_;    // guarded by mutex_
    std::vector<Upload> uploads_;   // Thread: progress lock
    std::atomic<Gpu*> gpu_{nullptr};
};

}  // namespace hvd::coll::cuda
