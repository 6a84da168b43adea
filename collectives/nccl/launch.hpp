// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/cuda/gpu.hpp"
#include "collectives/nccl/connection.hpp"
#include "collectives/process_set.hpp"
#include "collectives/types.hpp"

#include <memory>
#include <vector>

namespace hvd::coll::nccl {

/// The way of one task into the GPU's stream: before NCCL's calls, the calls, after them. Between
/// the steps the connection has to be ready.
///
/// Thread: progress lock, with Device::Current.
class Launch {
public:
    virtual ~Launch() = default;
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    /// Whether the tables that `call` needs are free. Never blocks.
    [[nodiscard]] virtual bool has_room(cuda::Gpu& /*gpu*/) const { return true; }

    /// Enqueues what comes before NCCL, and NCCL's calls.
    virtual void call(cuda::Gpu& gpu, Connection& connection) = 0;

    /// called: further ones were called. waits: for what comes without them, to be asked again.
    enum class Step { called, waits, over };

    /// Enqueues further ones, once those are in the stream.
    [[nodiscard]] virtual Step next(cuda::Gpu& /*gpu*/, Connection& /*connection*/) {
        return Step::over;
    }

    /// Enqueues what comes after them, once they are in the stream.
    virtual void finish(cuda::Gpu& /*gpu*/) {}

protected:
    Launch() = default;
};

[[nodiscard]] std::unique_ptr<Launch> plan_launch(const Task& task, const ProcessSet& set);

}  // namespace hvd::coll::nccl
