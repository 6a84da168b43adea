// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/cuda/adasum_arguments.hpp"
#include "collectives/cuda/pack_arguments.hpp"
#include "collectives/device_tensors.hpp"
#include "collectives/types.hpp"

#include <cstddef>
#include <span>

namespace hvd::coll::cuda {

class Gpu;

/// Combines two fused gradients of f32 or f64 by Adasum, tensor by tensor.
///
/// Thread: the holder of the progress lock, with Device::Current; nothing else of the packer
/// between construction and `finish`.
class AdasumKernels {
public:
    /// Enqueues the table of the tensors: where they lie in both gradients. The packer needs room
    /// for it. Throws Exception.
    AdasumKernels(Gpu& gpu, DataType type, std::span<const PackEntry> places);

    /// Enqueues the combination; `result` may be one of both. Throws Exception.
    void combine(const std::byte* left, const std::byte* right, std::byte* result);

    /// Nothing more comes. Throws Exception.
    void finish();

private:
    Gpu& gpu_;
    DataType type_;
    DeviceBytes sums_;
    AdasumArguments arguments_;
};

}  // namespace hvd::coll::cuda
