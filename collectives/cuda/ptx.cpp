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

}  // namespace hvd::coll::cuda
