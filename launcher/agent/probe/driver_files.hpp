// SPDX-License-Identifier: Apache-2.0
//
// GPUs where hvd-gpu-probe cannot tell, as on a host that got its agent over SSH: by the files of
// the driver, and by nvidia-smi for what is not in them.
#pragma once

#include "launcher/model/host_facts.hpp"

#include <filesystem>
#include <functional>
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

/// The output of nvidia-smi with these options, or nothing.
using AskNvidiaSmi = std::function<std::optional<std::string>(const std::vector<std::string>&)>;

/// Reads the files below `root`, which is "/" but in tests. nvidia-smi is asked for the GPUs where
/// the files name none, and for the MIG devices where there are any.
[[nodiscard]] GpuFindings find_without_probe(const std::filesystem::path& root,
                                             const AskNvidiaSmi& ask);

/// Reads the text of a /proc/driver/nvidia/gpus/*/information. Its index is the caller's to say.
[[nodiscard]] std::optional<Gpu> parse_driver_information(std::string_view text);

/// "580.65.06" of the text of /proc/driver/nvidia/version; empty where there is none.
[[nodiscard]] std::string parse_driver_version(std::string_view text);

/// The options with which nvidia-smi prints what parse_nvidia_smi reads.
inline constexpr std::string_view kNvidiaSmiQuery = "--query-gpu=index,uuid,memory.total,name";
inline constexpr std::string_view kNvidiaSmiFormat = "--format=csv,noheader,nounits";
[[nodiscard]] std::optional<std::vector<Gpu>> parse_nvidia_smi(std::string_view text);

/// `gpus` with the MIG devices of `list`, the output of `nvidia-smi -L`, in the place of their
/// GPUs.
[[nodiscard]] std::vector<Gpu> with_mig_devices(const std::vector<Gpu>& gpus,
                                                std::string_view list);

}  // namespace hvd::launch::agent
