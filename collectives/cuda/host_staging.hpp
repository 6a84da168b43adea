// SPDX-License-Identifier: Apache-2.0
//
// Tensors of GPUs through pinned memory.
#pragma once

#include "collectives/cuda/handle.hpp"
#include "collectives/device_tensors.hpp"
#include "collectives/staging.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hvd::coll::cuda {

/// See Staging. It lasts as long as the process.
class HostStaging final : public Staging {
public:
    /// `library` is the driver's name, for dlopen. Collectives of `devices` are not disturbed by
    /// calls that may synchronise their device; it outlives the staging. nullptr: there are none.
    explicit HostStaging(std::string library = kDriverLibrary, DeviceTensors* devices = nullptr)
        : library_(std::move(library)), devices_(devices) {}

    [[nodiscard]] Bytes allocate(int device, Kind kind, std::size_t bytes) override;
    void follow(const DevicePlace& place) override;
    void copy(int device,
              Direction direction,
              std::span<const Copy> copies,
              std::function<void()> done) override;
    void drain() noexcept override;
    void trim() noexcept override;

private:
    /// A GPU, a stream for each direction, and pinned memory that is free, by its size.
    struct Gpu {
        /// Throws Exception, and leaves nothing of it then.
        Gpu(const Driver& driver, int index);

        [[nodiscard]] CUstream stream(Direction direction) const noexcept;

        Device device;
        Handle<CUstream> to_host;
        Handle<CUstream> to_device;
        std::multimap<std::size_t, std::byte*> free{};
        std::size_t free_bytes = 0;
    };

    void give_back(std::byte* memory, int device, Kind kind, std::size_t bytes) noexcept override;

    void while_quiet(const std::function<void()>& action) const;

    // These need mutex_.
    [[nodiscard]] Gpu& gpu(int index);
    [[nodiscard]] std::byte* kept(int device, std::size_t bytes);
    [[nodiscard]] std::byte* new_pinned(int device, std::size_t bytes);
    [[nodiscard]] std::byte* on_device(int device, std::size_t bytes);
    void free_kept(Gpu& gpu) noexcept;
    void keep_or_free(Gpu& gpu, std::byte* memory, std::size_t bytes) noexcept;

    std::string library_;
    DeviceTensors* devices_;
    std::mutex mutex_;
    std::set<const std::byte*> in_order_;       // guarded by mutex_; given back in a stream's order
    std::optional<Driver> driver_;              // guarded by mutex_; unchanged once it is there
    std::map<int, std::unique_ptr<Gpu>> gpus_;  // guarded by mutex_; their streams too
};

}  // namespace hvd::coll::cuda
