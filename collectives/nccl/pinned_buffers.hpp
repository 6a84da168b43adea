// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/cuda/gpu.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>

namespace hvd::coll::nccl {

/// Memory of the host for what travels between hosts, two parts of a message for each GPU of this
/// process. The communicators of a GPU use it by turns, as FusionBuffers. It stays until the end of
/// the world.
///
/// Thread: progress lock.
class PinnedBuffers {
public:
    /// Bytes of a part. A smaller one would leave the connections idle while the engine looks for
    /// the end of a copy, every 100 us; not measured here, where there was one GPU.
    static constexpr std::size_t kPartBytes = std::size_t{1} << 20U;

    PinnedBuffers() = default;
    PinnedBuffers(const PinnedBuffers&) = delete;
    PinnedBuffers& operator=(const PinnedBuffers&) = delete;
    ~PinnedBuffers() = default;

    /// The GPU outlives this. May synchronise GPUs where it is not there yet: they have to be idle.
    /// Throws Exception.
    [[nodiscard]] std::span<std::byte> of(cuda::Gpu& gpu);

private:
    /// Gives it back, once the GPU is idle; it waits for that no longer than a second.
    struct End {
        cuda::Gpu* gpu;
        void operator()(std::byte* memory) const noexcept;
    };

    std::map<int, std::unique_ptr<std::byte, End>> buffers_;  // by GPU
};

}  // namespace hvd::coll::nccl
