// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/base/log.hpp"
#include "collectives/device_tensors.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace hvd::coll::nccl {

struct Options {
    std::string library{};  // HOROVOD_NCCL_LIBRARY; empty: the one that is found
    std::chrono::milliseconds connect_limit{60'000};   // for making a communicator
    std::size_t kept_bytes = std::size_t{128} << 20U;  // HOROVOD_GPU_BUFFER_LIMIT
};

/// Collectives of GPUs' tensors. `devices` is make_device_tensors' and outlives the backend;
/// nullptr gives nullptr. NCCL is loaded with the first communicator. `across`: nullptr, or the
/// host's backend, which outlives this one, where NCCL connects the ranks of a host alone: it then
/// carries allreduces of sets on several hosts from host to host, and nothing else is run there.
[[nodiscard]] std::unique_ptr<Backend> create(DeviceTensors* devices,
                                              Options options,
                                              Backend* across,
                                              const Logger& log);

}  // namespace hvd::coll::nccl
