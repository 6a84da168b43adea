// SPDX-License-Identifier: Apache-2.0
//
// Cases of abi_worker, each run by one rank.
#pragma once

#include "runtime/include/hvd/hvd.h"

#include <map>
#include <string>

namespace hvd::test {

/// Throws `message` and the library's last error.
void require(bool condition, const std::string& message);

/// Programs that err.
[[nodiscard]] std::map<std::string, void (*)()> misuse_cases();

/// The stream forms of waiting, and the health of a world.
[[nodiscard]] std::map<std::string, void (*)()> stream_cases();

/// Tensors of a GPU, which is the stand-in's.
[[nodiscard]] std::map<std::string, void (*)()> device_cases();

/// Every call of the driver and of NCCL that fails.
[[nodiscard]] std::map<std::string, void (*)()> device_error_cases();

/// Tensors of a GPU in process sets.
[[nodiscard]] std::map<std::string, void (*)()> device_set_cases();

/// Values that are rounded on the way; on GPUs.
[[nodiscard]] std::map<std::string, void (*)()> wire_cases();
[[nodiscard]] std::map<std::string, void (*)()> device_wire_cases();

/// Joins, and second GPUs of ranks; with NCCL alone.
[[nodiscard]] std::map<std::string, void (*)()> gpu_choice_cases();

/// Worlds with tensors of GPUs that fail; with NCCL alone.
[[nodiscard]] std::map<std::string, void (*)()> gpu_end_cases();

/// Memory of GPUs; with NCCL alone.
[[nodiscard]] std::map<std::string, void (*)()> gpu_memory_cases();

/// GPUs of several hosts; with NCCL alone.
[[nodiscard]] std::map<std::string, void (*)()> gpu_host_cases();

/// Gradients that travel together.
[[nodiscard]] std::map<std::string, void (*)()> fusion_cases();

/// Worlds that come and go.
[[nodiscard]] std::map<std::string, void (*)()> round_cases();

/// Process sets, alltoall, reducescatter and join.
[[nodiscard]] std::map<std::string, void (*)()> set_cases();

}  // namespace hvd::test
