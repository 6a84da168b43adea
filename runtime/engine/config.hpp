// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/log.hpp"
#include "collectives/base/result.hpp"
#include "collectives/transport/tcp/address.hpp"
#include "runtime/negotiation/stall.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::rt {

/// Which way collectives of CPU tensors go, where the user says so.
enum class CpuOperations {
    automatic,  // shared memory on one host, else TCP
    tcp,
    mpi,
};

/// Where tensors of GPUs are reduced.
enum class GpuOperations {
    nccl,  // on the GPUs
    host,  // through the memory of the host, also where ranks share a GPU
};

/// The settings of the runtime. Filled once, by `read_config`.
struct EngineConfig {
    std::optional<std::size_t> fusion_bytes;    // nothing: what suits the backend; 0: off
    std::chrono::microseconds cycle_time{0};    // how long a small tensor may wait for others
    std::optional<std::size_t> cache_capacity;  // nothing: as many as there is room for; 0: off
    LogLevel log_level = LogLevel::warn;
    bool log_time = true;
    std::chrono::milliseconds start_timeout{30'000};
    std::chrono::milliseconds lease{30'000};  // after which a silent host is cut off; 0: never
    CpuOperations cpu_operations = CpuOperations::automatic;
    GpuOperations gpu_operations = GpuOperations::nccl;
    std::string nccl_library{};  // the file; empty: the one that is found
    std::size_t gpu_buffer_limit = std::size_t{128} << 20U;  // bytes kept on a GPU
    bool mpi_threads = true;        // MPI_THREAD_MULTIPLE, where we start MPI
    std::string timeline{};         // file that rank 0 writes; DYNAMIC: none yet
    std::string timeline_folder{};  // where each rank writes a file
    bool mark_cycles = false;       // in these
    bool is_stall_checked = true;
    std::chrono::milliseconds stall_warning{60'000};
    std::chrono::milliseconds stall_shutdown{0};  // 0: never
    bool is_deterministic = false;                // sums in rank order over several hosts, too
    bool is_hierarchical = false;                 // NCCL connects the ranks of each host alone
    bool has_dynamic_sets = false;                // process sets may change after the start
    bool adasum_across_hosts = false;             // after averages inside of hosts
    bool averages_over_contributing = false;      // allreduce: not over ranks that have joined
    coll::net::InterfaceFilter interfaces{};      // that connections may use
    coll::net::PortRange ports{};                 // that ranks may listen on

    friend bool operator==(const EngineConfig&, const EngineConfig&) = default;
};

/// One variable of the environment.
struct ConfigVariable {
    std::string_view name;
    Status (*parse)(std::string_view text, EngineConfig& config);
    std::string_view help;
};

/// Those that the runtime obeys.
[[nodiscard]] std::span<const ConfigVariable> config_variables();

/// Errors: invalid_argument that names the variable, its value and what would be right.
[[nodiscard]] Result<EngineConfig> read_config(const Environment& environment);

/// The limits of stalls in the configuration. A shutdown time that is not after the warning is left
/// out, as in the original.
[[nodiscard]] StallLimits stall_limits(const EngineConfig& config);

/// Sentences about variables of the original that ask for what this engine does not have. Under
/// horovodrun there are none: it warns of them itself.
[[nodiscard]] std::vector<std::string> idle_variables(const Environment& environment);

/// Sentences about HOROVOD_* variables that nobody knows, with the nearest known name.
[[nodiscard]] std::vector<std::string> unknown_variables(const Environment& environment);

}  // namespace hvd::rt
