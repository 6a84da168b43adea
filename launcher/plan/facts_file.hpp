// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/host.hpp"
#include "launcher/plan/planner.hpp"

#include <filesystem>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// Reads what --facts names: a JSON list with one object for each host,
///
///     [{"hostname": "node1",            needed
///       "cpus": "0-63",                 needed; ranges, or a list of numbers
///       "machine": "x86_64",
///       "memory_bytes": 270000000000,
///       "gpus": [{"index": 0, "uuid": "GPU-5a1f...",                both needed
///                 "name": "NVIDIA H200", "memory_bytes": 150000000000, "cpus": "0-31"}],
///       "gpu_mask": "0,1",              CUDA_VISIBLE_DEVICES on that host
///       "gpu_note": "no driver",        why there are no GPUs
///       "free_port": 21000}]            for MASTER_PORT
///
/// A field that is left out has the value that HostFacts gives it. Errors begin with "FILE: " and
/// name the host and the field: one that is missing, unknown, or of the wrong type.
[[nodiscard]] Result<std::vector<HostFacts>> parse_facts(std::string_view text,
                                                         std::string_view file);

/// The same from a file of at most 64 MiB.
[[nodiscard]] Result<std::vector<HostFacts>> read_facts_file(const std::filesystem::path& path);

/// Finds the facts of each wanted host by its name; of no wanted host makes all of the facts.
/// Which of several is the machine of the launcher is not recorded: all are reached by SSH, but a
/// single one. Errors: a host that is not described, with the names that are.
[[nodiscard]] Result<std::vector<PlanHost>> describe_hosts(const std::vector<Host>& wanted,
                                                           const std::vector<HostFacts>& facts);

}  // namespace hvd::launch
