// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/nccl/connection.hpp"

#include <memory>
#include <vector>

namespace hvd::coll::nccl {

/// Connections of process sets that are gone. The end of a connection may synchronise the GPU, so
/// that it waits until no collective runs there.
///
/// Thread: progress lock.
class Closing {
public:
    explicit Closing(const cuda::Gpu& gpu) : gpu_(gpu) {}

    void add(std::unique_ptr<Connection> connection);

    /// Ends those that can be ended now. Never blocks. To be called when the GPU may be idle.
    void step() noexcept;

private:
    const cuda::Gpu& gpu_;  // outlives this
    std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace hvd::coll::nccl
