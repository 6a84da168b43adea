// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch {

/// One GPU of a host, as its driver names it.
struct Gpu {
    int index = 0;  // in PCI bus order, the order of CUDA_DEVICE_ORDER=PCI_BUS_ID
    std::string uuid;
    std::string name;
    std::uint64_t memory_bytes = 0;
    std::vector<int> cpus;  // near it; empty when unknown
    std::string parent{};   // of a MIG device: the UUID of its GPU, whose `index` it has

    friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// Whether it is a MIG device: a part of a GPU, which CUDA takes for a GPU.
[[nodiscard]] inline bool is_mig(const Gpu& gpu) noexcept {
    return gpu.uuid.starts_with("MIG-");
}

/// The driver of a host's GPUs. Each is empty where it is not known.
struct GpuDriver {
    std::string version;
    std::string cuda;  // the newest that it runs
    std::string link;  // how its GPUs reach each other: "NVLink", "PCIe", "host memory"

    friend bool operator==(const GpuDriver&, const GpuDriver&) = default;
};

/// The NCCL that the Python of a host's ranks would load.
struct NcclFile {
    std::string version;  // "2.27.3"; empty where neither its name nor its package tells
    std::string file;     // empty: none was found

    friend bool operator==(const NcclFile&, const NcclFile&) = default;
};

/// The facts that an agent collects about its host.
struct HostFacts {
    std::string hostname;
    std::string machine;    // uname -m
    std::vector<int> cpus;  // allowed to us (cpuset), ascending
    std::uint64_t memory_bytes = 0;
    std::vector<Gpu> gpus;  // all that the driver shows, before any mask; MIG devices for their GPU
    GpuDriver gpu_driver{};
    std::optional<std::string> gpu_mask;  // CUDA_VISIBLE_DEVICES as the agent found it
    std::string gpu_note;                 // why `gpus` lacks some or all, when worth a line
    int free_port = 0;   // tested free a moment ago, outside the ephemeral range; for MASTER_PORT
    std::string mark{};  // an abstract socket of a random name, which agents of this machine reach

    friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

}  // namespace hvd::launch
