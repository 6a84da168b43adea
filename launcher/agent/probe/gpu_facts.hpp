// SPDX-License-Identifier: Apache-2.0
//
// Which GPUs the host has. The driver's library can hang, so the agent never loads it: it runs
// hvd-gpu-probe under a deadline, and where that tells nothing it reads the files of the driver,
// and asks nvidia-smi last. A host without a driver pays two look-ups of names.
#pragma once

#include "launcher/agent/probe/driver_files.hpp"
#include "launcher/agent/processes/spawner.hpp"

#include <filesystem>
#include <optional>
#include <string_view>

namespace hvd::launch::agent {

/// The helper that came with the program of this process (what /proc/self/exe names): it lies
/// beside an agent, and in libexec of the prefix whose bin has horovodrun. Nothing where another
/// user might have put it there, as around a program in /tmp, or where the program was removed.
[[nodiscard]] std::optional<std::filesystem::path> find_probe(const std::filesystem::path& program);

/// Reads what hvd-gpu-probe prints: lines of fields with tabs between them,
/// "driver VERSION CUDA-VERSION LINK", "gpu INDEX UUID PARENT MEMORY-BYTES NEAR-CPUS NAME" or
/// "note TEXT". Nothing if it is malformed.
[[nodiscard]] std::optional<GpuFindings> parse_probe(std::string_view text);

/// Whether a look for GPUs is worth a process: a driver is loaded, or HOROVOD_NVML_LIBRARY is set.
[[nodiscard]] bool may_have_gpus();

/// Waits for the tools that it runs, seconds at most, and not when `launcher` (a descriptor that is
/// read by us) comes to its end meanwhile.
[[nodiscard]] GpuFindings find_gpus(const Inheritance& given, int launcher);

}  // namespace hvd::launch::agent
