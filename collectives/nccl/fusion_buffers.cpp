// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/fusion_buffers.hpp"

#include "collectives/nccl/check.hpp"

#include <string>

namespace hvd::coll::nccl {

bool FusionBuffers::are_possible(const Library& library) const noexcept {
    return limit_ >= kBytes && library.ncclCommRegister != nullptr &&
           library.ncclCommDeregister != nullptr && library.ncclMemAlloc != nullptr &&
           library.ncclMemFree != nullptr;
}

std::span<std::byte> FusionBuffers::of(const Library& library, cuda::Gpu& gpu) {
    auto found = buffers_.find(gpu.index());
    if (found == buffers_.end()) {
        const cuda::Device::Current current(gpu.device());
        void* made = nullptr;
        check(library, library.ncclMemAlloc(&made, kBytes),
              "ncclMemAlloc of " + std::to_string(kBytes) +
                  " bytes for fused messages (HOROVOD_GPU_BUFFER_LIMIT=0 needs none)");
        found = buffers_
                    .emplace(gpu.index(), Memory(static_cast<std::byte*>(made),
                                                 End{.library = &library, .gpu = &gpu}))
                    .first;
        gpu.memory().set_limit(limit_beside(gpu));
    }
    return {found->second.get(), kBytes};
}

/// Kernels of an aborted collective may still be in the stream.
void FusionBuffers::End::operator()(std::byte* memory) const noexcept {
    try {
        const auto quiet = gpu->quieten();
        const cuda::Device::Current current(gpu->device());
        (void)library->ncclMemFree(memory);
    } catch (const Exception&) {  // the driver has gone, and its memory with it
    }
}

}  // namespace hvd::coll::nccl
