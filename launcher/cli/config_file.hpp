// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/cli/tunables.hpp"

#include <filesystem>
#include <string_view>

namespace hvd::launch {

/// What a config file says.
struct ConfigFile {
    TunableValues tunables;
    bool wants_mpi = false;  // an mpirun should start the ranks
};

/// Reads the settings of --config-file: YAML in the schema of the original.
///
///     params:          {fusion_threshold_mb, cycle_time_ms, cache_capacity,
///                       hierarchical_allreduce, hierarchical_allgather, torus_allreduce}
///     autotune:        {enabled, log_file, warmup_samples, steps_per_sample,
///                       bayes_opt_max_samples, gaussian_process_noise}
///     timeline:        {filename, mark_cycles}
///     stall_check:     {enabled, warning_time_seconds, shutdown_time_seconds}
///     library_options: {mpi_threads_disable, num_nccl_streams, thread_affinity,
///                       gloo_timeout_seconds}
///     logging:         {level, with_timestamp, hide_timestamp}
///     controller:      gloo, or mpi as --mpi says
///
/// A key without value counts as absent. Errors begin with "FILE:LINE: " and name the key: an
/// unknown key (with the nearest known one), a value of the wrong type or range, a key written
/// twice. `file` is used in errors alone.
[[nodiscard]] Result<ConfigFile> parse_config(std::string_view text, std::string_view file);

/// The same from a file of at most 1 MiB.
[[nodiscard]] Result<ConfigFile> read_config_file(const std::filesystem::path& path);

}  // namespace hvd::launch
