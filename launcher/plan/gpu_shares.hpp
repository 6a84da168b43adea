// SPDX-License-Identifier: Apache-2.0
//
// Which GPUs of a host a job may use, and which of them belong to which rank.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "launcher/model/host_facts.hpp"
#include "launcher/model/launch_request.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

inline constexpr std::string_view kVisibleDevices = "CUDA_VISIBLE_DEVICES";
inline constexpr std::string_view kDeviceOrder = "CUDA_DEVICE_ORDER";
inline constexpr std::string_view kGpuOperations = "HOROVOD_GPU_OPERATIONS";
inline constexpr std::string_view kPciOrder = "PCI_BUS_ID";

/// A GPU that the ranks may see.
struct VisibleGpu {
    Gpu gpu;
    std::string token;  // how the mask names it; empty without a mask
};

struct VisibleGpus {
    std::optional<std::string> mask{};
    std::vector<VisibleGpu> gpus{};  // in the order in which CUDA numbers them
    bool is_cpu_only = false;        // the mask is there and excludes every GPU on purpose
    bool has_mig = false;            // a MIG device is among them
    std::vector<std::string> warnings{};
};

/// Reads a CUDA_VISIBLE_DEVICES as CUDA does: indices, UUIDs and their beginnings, MIG devices; the
/// first entry that names nothing hides the ones after it. The name of a GPU in MIG mode stands for
/// its first MIG device. `all` is what the driver shows.
[[nodiscard]] VisibleGpus apply_gpu_mask(std::span<const Gpu> all,
                                         const std::optional<std::string>& mask);

/// How many ranks a host takes where nobody wrote it: all its GPUs make its slots, or else all its
/// CPUs.
[[nodiscard]] int count_slots(const BindingOptions& binding,
                              const HostFacts& facts,
                              const VisibleGpus& visible);

/// The GPUs of one rank.
struct GpuShare {
    std::vector<Gpu> gpus;
    Environment env;  // on top of `present`
};

/// Divides the visible GPUs among `ranks` ranks of `host`. `present` is what the ranks have already
/// of kVisibleDevices, kDeviceOrder and kGpuOperations. A rank has one MIG device at most, named by
/// its UUID, and sees no other: CUDA shows a process only one. Ranks that share a GPU, also by MIG
/// devices, get kGpuOperations=host: NCCL has one rank for each GPU. Errors: too many ranks, with
/// both numbers and the remedies; MIG devices that cannot be given so.
[[nodiscard]] Result<std::vector<GpuShare>> share_gpus(const BindingOptions& binding,
                                                       const std::string& host,
                                                       const VisibleGpus& visible,
                                                       int ranks,
                                                       const Environment& present);

/// The mask that holds on this host: --env wins over what its agent found.
[[nodiscard]] std::optional<std::string> gpu_mask(const Environment& env_set,
                                                  const HostFacts& facts);

}  // namespace hvd::launch
