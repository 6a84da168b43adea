// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/cuda/gpu.hpp"
#include "collectives/nccl/library.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>

namespace hvd::coll::nccl {

/// Memory that NCCL has allocated, for a fused message of each GPU of this process. The
/// communicators of a GPU register it and use it by turns: their collectives are in one stream. It
/// stays until the end of the world, since all ranks would have to agree before it is used anew.
///
/// Thread: progress lock.
class FusionBuffers {
public:
    /// The largest fused message in its own types, with gaps between 8192 tensors; the granularity
    /// of such memory is 2 MiB.
    static constexpr std::size_t kBytes = std::size_t{34} << 20U;

    /// `limit`: how many bytes of a GPU may be kept between collectives, this memory included.
    explicit FusionBuffers(std::size_t limit) noexcept : limit_(limit) {}
    FusionBuffers(const FusionBuffers&) = delete;
    FusionBuffers& operator=(const FusionBuffers&) = delete;
    ~FusionBuffers() = default;

    /// Whether this process can register memory.
    [[nodiscard]] bool are_possible(const Library& library) const noexcept;

    /// Where `are_possible`. The references outlive this. May synchronise GPUs where it is not
    /// there yet: they have to be idle. Throws Exception.
    [[nodiscard]] std::span<std::byte> of(const Library& library, cuda::Gpu& gpu);

    /// How many other bytes of the GPU may be kept.
    [[nodiscard]] std::size_t limit_beside(const cuda::Gpu& gpu) const noexcept {
        return buffers_.contains(gpu.index()) ? limit_ - kBytes : limit_;
    }

private:
    /// Gives it back, once the GPU is idle; it waits for that no longer than a second.
    struct End {
        const Library* library;
        cuda::Gpu* gpu;
        void operator()(std::byte* memory) const noexcept;
    };
    using Memory = std::unique_ptr<std::byte, End>;

    std::size_t limit_;
    std::map<int, Memory> buffers_;  // by GPU
};

}  // namespace hvd::coll::nccl
