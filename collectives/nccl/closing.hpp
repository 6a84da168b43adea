// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/cuda/gpus.hpp"
#include "collectives/nccl/connection.hpp"

#include <memory>
#include <vector>

namespace hvd::coll::nccl {

/// Connections of process sets that are gone. The end of a connection may synchronise its GPU, and
/// GPUs that see each other's memory, so that it waits until no collective runs on any.
///
/// Thread: progress lock.
class Closing {
public:
    explicit Closing(const cuda::Gpus& gpus) : gpus_(gpus) {}

    void add(std::unique_ptr<Connection> connection);

    /// Ends those that can be ended now. Never blocks. To be called when the GPUs may be idle.
    void step() noexcept;

private:
    const cuda::Gpus& gpus_;  // outlive this
    std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace hvd::coll::nccl
