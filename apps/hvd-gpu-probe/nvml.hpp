// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hvd::gpu_probe {

/// One GPU, or one MIG device of a GPU in MIG mode, as the driver's management library describes
/// it.
struct FoundGpu {
    int index = 0;  // of the GPU, in PCI bus order
    std::string uuid;
    std::string parent;  // of a MIG device: the UUID of its GPU
    std::string name;
    std::uint64_t memory_bytes = 0;
    std::vector<int> near_cpus;  // empty when unknown
};

/// The driver of the GPUs. Each is empty where it is not known.
struct FoundDriver {
    std::string version;  // "580.65.06"
    std::string cuda;     // the newest that it runs: "13.0"
    std::string link;     // how GPUs reach each other: "NVLink", "PCIe", "host memory"; of several
                          // ways the slowest
};

struct Found {
    FoundDriver driver;
    std::vector<FoundGpu> gpus;
    std::vector<std::string> notes;  // why a GPU is not among them
};

/// How much of a GPU's memory is in use, and by whom.
struct GpuUse {
    FoundGpu gpu;
    std::uint64_t used_bytes = 0;
    struct Process {
        unsigned pid = 0;
        std::uint64_t bytes = 0;  // 0 when unknown
    };
    std::vector<Process> processes;
};

/// Loads the library (NVML: libnvidia-ml.so.1 or another that speaks like it) and asks for all
/// GPUs. The kernel's files below `sysfs` tell the CPUs near a GPU where the library does not know
/// them. May hang in the driver: run it in a process that can be killed. Errors: unavailable, with
/// the library and what failed.
[[nodiscard]] Result<Found> find_gpus(const std::string& library,
                                      const std::filesystem::path& sysfs);

/// The memory of all GPUs, in the same order. As find_gpus.
[[nodiscard]] Result<std::vector<GpuUse>> find_use(const std::string& library);

}  // namespace hvd::gpu_probe
