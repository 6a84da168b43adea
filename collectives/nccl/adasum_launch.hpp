// SPDX-License-Identifier: Apache-2.0
//
// Adasum on GPUs, along the tree of algorithms/adasum_tree.hpp.
//
// Tensors are packed into one gradient, of f64 or else f32. At each level of the tree a pair of
// members exchange their whole gradients, and both combine them, with the same bits: each pair of
// the next level has the results of both. So a member needs memory for two gradients and sends
// log2(n) of them. Everything is in the stream: no dot product is seen by the host.
#pragma once

#include "collectives/nccl/launch.hpp"

namespace hvd::coll::nccl {

/// Of an allreduce by Adasum. Throws Exception (unsupported) for other types than floats.
[[nodiscard]] std::unique_ptr<Launch> plan_adasum(const Task& task, const ProcessSet& set);

}  // namespace hvd::coll::nccl
