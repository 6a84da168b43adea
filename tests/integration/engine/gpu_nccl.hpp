// SPDX-License-Identifier: Apache-2.0
//
// The stand-in for NCCL, for cases of abi_worker.
#pragma once

#include "collectives/cuda/shared_library.hpp"
#include "tests/integration/engine/abi_worker.hpp"
#include "tests/support/gpu/nccl_control.hpp"

#include <string>

namespace hvd::test {

inline gpu::NcclControl& nccl_control() {
    static gpu::NcclControl* const found =
        reinterpret_cast<gpu::NcclControlFunction>(coll::cuda::find_symbol(
            coll::cuda::open_library("libnccl.so.2").value(), gpu::kNcclControlSymbol))();
    return *found;
}

/// Between worlds: neither communicators nor memory are left.
inline void require_nothing_of_nccl() {
    const auto leaks = nccl_control().leaks();
    require(leaks.empty(), leaks.empty() ? "" : leaks.front() + " left");
}

}  // namespace hvd::test
