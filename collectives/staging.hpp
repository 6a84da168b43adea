// SPDX-License-Identifier: Apache-2.0
//
// The seam to devices for tensors that travel through the memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace hvd::coll {

/// A device's tensor: on which device, and when it is ready.
struct DevicePlace {
    int index = 0;
    void* stream = nullptr;  // on which it becomes ready; nullptr: the default stream
    void* event = nullptr;   // after which it is ready, instead of the stream
};

/// Copies between devices and the host. Every function but `give_back`, `drain` and `trim` throws
/// Exception where the device cannot do it.
///
/// Thread: any.
class Staging {
public:
    enum class Kind : std::uint8_t { pinned, device };

    /// Memory of `kind`, which goes back to its Staging.
    struct GiveBack {
        Staging* staging = nullptr;
        int device = 0;
        Kind kind = Kind::pinned;
        std::size_t bytes = 0;
        void operator()(std::byte* memory) const noexcept {
            staging->give_back(memory, device, kind, bytes);
        }
    };
    using Bytes = std::unique_ptr<std::byte, GiveBack>;

    enum class Direction : std::uint8_t { to_host, to_device };

    struct Copy {
        std::byte* on_device = nullptr;
        std::byte* on_host = nullptr;
        std::size_t bytes = 0;
    };

    virtual ~Staging() = default;
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    /// Memory of the device, or of the host for copies with it, aligned to 64 bytes. nullptr for 0
    /// bytes. Pinned memory that is new waits until no collective is on the device: never with the
    /// progress lock.
    [[nodiscard]] virtual Bytes allocate(int device, Kind kind, std::size_t bytes) = 0;

    /// Copies to the host that are enqueued from now on wait for what is in the place's stream now.
    virtual void follow(const DevicePlace& place) = 0;

    /// Enqueues copies, after those of the same device and direction before, and `done`, which is
    /// called on a thread of the driver once they have ended, and must neither block nor throw.
    /// Returns at once.
    virtual void copy(int device,
                      Direction direction,
                      std::span<const Copy> copies,
                      std::function<void()> done) = 0;

    /// Returns when all copies have ended.
    virtual void drain() noexcept = 0;

    /// Gives memory that is kept for later copies back.
    virtual void trim() noexcept = 0;

protected:
    Staging() = default;

private:
    virtual void give_back(std::byte* memory,
                           int device,
                           Kind kind,
                           std::size_t bytes) noexcept = 0;
};

}  // namespace hvd::coll
