// SPDX-License-Identifier: Apache-2.0
//
// Which GPUs the host has. The driver's library can hang, so the agent never loads it: it runs
// hvd-gpu-probe under a deadline, and where that tells nothing it reads the files of the driver,
// and asks nvidia-smi last. A host without a driver pays two look-ups of names.
#pragma once

#include "launcher/agent/processes/spawner.hpp"
#include "launcher/model/launch_plan.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch::agent {

struct GpuFindings {
    std::vector<Gpu> gpus;
    GpuDriver driver{};
    std::string note;  // why some or all are missing, when that is worth a line

    friend bool operator==(const GpuFindings&, const GpuFindings&) = default;
};

/// The helper that came with the program of this process (what /proc/self/exe names): it lies
/// beside an agent, and in libexec of the prefix whose bin has horovodrun. Nothing where another
/// user might have put it there, as around a program in /tmp, or where the program was removed.
[[nodiscard]] std::optional<std::filesystem::path> find_probe(const std::filesystem::path& program);

/// Reads what hvd-gpu-probe prints: lines of fields with tabs between them,
/// "driver VERSION CUDA-VERSION LINK", "gpu INDEX UUID PARENT MEMORY-BYTES NEAR-CPUS NAME" or
/// "note TEXT". Nothing if it is malformed.
[[nodiscard]] std::optional<GpuFindings> parse_probe(std::string_view text);

/// Reads the text of a /proc/driver/nvidia/gpus/*/information. Its index is the caller's to say.
[[nodiscard]] std::optional<Gpu> parse_driver_information(std::string_view text);

/// The options with which nvidia-smi prints what parse_nvidia_smi reads.
inline constexpr std::string_view kNvidiaSmiQuery = "--query-gpu=index,uuid,memory.total,name";
inline constexpr std::string_view kNvidiaSmiFormat = "--format=csv,noheader,nounits";
[[nodiscard]] std::optional<std::vector<Gpu>> parse_nvidia_smi(std::string_view text);

/// Whether a look for GPUs is worth a process: a driver is loaded, or HOROVOD_NVML_LIBRARY is set.
[[nodiscard]] bool may_have_gpus();

/// Waits for the tools that it runs, seconds at most, and not when `launcher` (a descriptor that is
/// read by us) comes to its end meanwhile.
[[nodiscard]] GpuFindings find_gpus(const Inheritance& given, int launcher);

}  // namespace hvd::launch::agent
