// SPDX-License-Identifier: Apache-2.0
//
// A reduction as NCCL and the kernels around it can do it. Pure.
#pragma once

#include "collectives/cuda/pack_plan.hpp"
#include "collectives/types.hpp"

#include <nccl.h>

namespace hvd::coll::nccl {

/// NCCL's operation, the type that travels, and the changes on both ways.
struct Reduction {
    ncclRedOp_t op = ncclSum;
    DataType wire = DataType::f32;
    cuda::PackChange pack{};    // of inputs on their way in
    cuda::PackChange unpack{};  // of results on their way out

    /// Whether tensors can travel from and to where they are.
    [[nodiscard]] bool is_plain() const noexcept {
        return cuda::is_copy(pack) && cuda::is_copy(unpack);
    }
};

/// Whether NCCL and the kernels can do it: any reduction but Adasum across hosts, which goes
/// through the host, and the average of booleans, which nobody has.
[[nodiscard]] bool can_reduce(DataType type, ReduceOp op) noexcept;

/// How the task's values are reduced over `size` ranks, if not by Adasum. Booleans are bytes of 0
/// and 1; integers of 16 bits, which NCCL does not know, travel as 32; what is averaged or scaled
/// travels wider where there is a wider type, so that sums are exact.
[[nodiscard]] Reduction plan_reduction(const Task& task, int size) noexcept;

[[nodiscard]] ncclDataType_t nccl_type(DataType type) noexcept;

}  // namespace hvd::coll::nccl
