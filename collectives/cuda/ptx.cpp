// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/ptx.hpp"

namespace hvd::coll::cuda {

const Ptx* ptx_for(int capability) noexcept {
    const Ptx* best = nullptr;
    for (const auto& module : ptx_modules()) {
        if (module.capability <= capability) {
            best = &module;
        }
    }
    return best;
}

std::span<const std::byte> cubin_for(int capability, int driver_version) noexcept {
    const auto* const module = ptx_for(capability);
    const bool is_taken = module != nullptr && module->capability / 10 == capability / 10 &&
                          driver_version / 1000 == toolkit_major();
    return is_taken ? module->cubin : std::span<const std::byte>();
}

}  // namespace hvd::coll::cuda
