// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/pinned_buffers.hpp"

namespace hvd::coll::nccl {

std::span<std::byte> PinnedBuffers::of(cuda::Gpu& gpu) {
    auto found = buffers_.find(gpu.index());
    if (found == buffers_.end()) {
        const cuda::Device::Current current(gpu.device());
        void* made = nullptr;
        check(gpu.driver(),
              gpu.driver().cuMemHostAlloc(&made, 2 * kPartBytes, CU_MEMHOSTALLOC_PORTABLE),
              "cuMemHostAlloc");
        found = buffers_
                    .emplace(gpu.index(), std::unique_ptr<std::byte, End>(
                                              static_cast<std::byte*>(made), End{.gpu = &gpu}))
                    .first;
    }
    return {found->second.get(), 2 * kPartBytes};
}

/// Copies of an aborted collective may still be in the stream.
void PinnedBuffers::End::operator()(std::byte* memory) const noexcept {
    try {
        const auto quiet = gpu->quieten();
        const cuda::Device::Current current(gpu->device());
        (void)gpu->driver().cuMemFreeHost(memory);
    } catch (const Exception&) {  // the driver has gone, and its memory with it
    }
}

}  // namespace hvd::coll::nccl
