// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/config.hpp"

#include "collectives/base/text.hpp"
#include "collectives/launch_contract/ignored_variables.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace hvd::rt {
namespace {

Error expected(std::string_view what) {
    return {Errc::invalid_argument, "expected " + std::string(what)};
}

Status parse_fusion(std::string_view text, EngineConfig& config) {
    config.fusion_bytes = parse_number<std::size_t>(text);
    return config.fusion_bytes ? ok() : expected("a number of bytes, or 0 to switch fusion off");
}

Status parse_cycle(std::string_view text, EngineConfig& config) {
    const auto milliseconds = parse_number<double>(text);
    if (!milliseconds || !(*milliseconds >= 0 && *milliseconds <= 60'000)) {
        return expected("milliseconds from 0 to 60000");
    }
    config.cycle_time = std::chrono::microseconds(static_cast<long long>(*milliseconds * 1000));
    return ok();
}

Status parse_cache(std::string_view text, EngineConfig& config) {
    config.cache_capacity = parse_number<std::size_t>(text);
    return config.cache_capacity ? ok() : expected("a number of tensors, or 0 to switch it off");
}

Status parse_level(std::string_view text, EngineConfig& config) {
    HVD_TRY(config.log_level, parse_log_level(text));
    return ok();
}

Result<bool> parse_switch(std::string_view text) {
    const auto number = parse_number<int>(text);
    if (!number || *number < 0 || *number > 1) {
        return expected("0 or 1");
    }
    return *number == 1;
}

Status parse_hide_time(std::string_view text, EngineConfig& config) {
    HVD_TRY(const bool hides, parse_switch(text));
    config.log_time = !hides;
    return ok();
}

Status parse_start_timeout(std::string_view text, EngineConfig& config) {
    const auto seconds = parse_number<int>(text);
    if (!seconds || *seconds < 1) {
        return expected("seconds, at least 1");
    }
    config.start_timeout = std::chrono::seconds(*seconds);
    return ok();
}

Status parse_lease(std::string_view text, EngineConfig& config) {
    const auto seconds = parse_number<int>(text);
    if (!seconds || *seconds < 0) {
        return expected("seconds, at least 0");
    }
    config.lease = std::chrono::seconds(*seconds);
    return ok();
}

Status parse_cpu_operations(std::string_view text, EngineConfig& config) {
    // The names of the original's, which a user's scripts may still set, all mean: choose yourself.
    constexpr auto kAutomatic =
        std::to_array<std::string_view>({"gloo", "GLOO", "ccl", "CCL", "shm"});
    if (text == "tcp") {
        config.cpu_operations = CpuOperations::tcp;
    } else if (text == "mpi" || text == "MPI") {
        config.cpu_operations = CpuOperations::mpi;
    } else if (std::ranges::find(kAutomatic, text) == kAutomatic.end()) {
        return expected("tcp, mpi, or nothing for what suits the hosts");
    }
    return ok();
}

Status parse_gpu_operations(std::string_view text, EngineConfig& config) {
    if (text == "host") {
        config.gpu_operations = GpuOperations::host;
    } else if (text != "nccl" && text != "NCCL") {
        return expected("nccl, or host for tensors that travel through the memory of the host");
    }
    return ok();
}

Status parse_nccl_library(std::string_view text, EngineConfig& config) {
    config.nccl_library = std::string(text);
    return ok();
}

Status parse_gpu_buffer_limit(std::string_view text, EngineConfig& config) {
    const auto bytes = parse_number<std::size_t>(text);
    if (!bytes) {
        return expected("a number of bytes");
    }
    config.gpu_buffer_limit = *bytes;
    return ok();
}

Status parse_mpi_threads(std::string_view text, EngineConfig& config) {
    HVD_TRY(const bool disables, parse_switch(text));
    config.mpi_threads = !disables;
    return ok();
}

Result<std::chrono::milliseconds> parse_seconds(std::string_view text) {
    constexpr double kMost = 1e9;
    const auto seconds = parse_number<double>(text);
    if (!seconds || !(*seconds >= 0 && *seconds <= kMost)) {
        return expected("seconds");
    }
    return std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
}

Status parse_stall_disable(std::string_view text, EngineConfig& config) {
    HVD_TRY(const bool disables, parse_switch(text));
    config.is_stall_checked = !disables;
    return ok();
}

Status parse_stall_warning(std::string_view text, EngineConfig& config) {
    HVD_TRY(config.stall_warning, parse_seconds(text));
    return ok();
}

Status parse_stall_shutdown(std::string_view text, EngineConfig& config) {
    HVD_TRY(config.stall_shutdown, parse_seconds(text));
    return ok();
}

Status parse_timeline(std::string_view text, EngineConfig& config) {
    config.timeline = text;
    return ok();
}

Status parse_timeline_folder(std::string_view text, EngineConfig& config) {
    config.timeline_folder = text;
    return ok();
}

Status parse_mark_cycles(std::string_view text, EngineConfig& config) {
    HVD_TRY(config.mark_cycles, parse_switch(text));
    return ok();
}

Status parse_deterministic(std::string_view text, EngineConfig& config) {
    HVD_TRY(config.is_deterministic, parse_switch(text));
    return ok();
}

Status parse_hierarchical(std::string_view text, EngineConfig& config) {
    HVD_TRY(config.is_hierarchical, parse_switch(text));
    return ok();
}

Status parse_adasum(std::string_view text, EngineConfig& config) {
    HVD_TRY(config.adasum_across_hosts, parse_switch(text));
    return ok();
}

Status parse_dynamic_sets(std::string_view text, EngineConfig& config) {
    HVD_TRY(config.has_dynamic_sets, parse_switch(text));
    return ok();
}

Status parse_average_over(std::string_view text, EngineConfig& config) {
    if (text != "all" && text != "contributing") {
        return expected("all or contributing");
    }
    config.averages_over_contributing = text == "contributing";
    return ok();
}

Status parse_interfaces(std::string_view text, EngineConfig& config) {
    HVD_TRY(config.interfaces, coll::net::parse_interface_filter(text));
    return ok();
}

Status parse_ports(std::string_view text, EngineConfig& config) {
    HVD_TRY(config.ports, coll::net::parse_port_range(text));
    return ok();
}

constexpr auto kVariables = std::to_array<ConfigVariable>({
    {"HOROVOD_FUSION_THRESHOLD", parse_fusion,
     "bytes up to which small tensors travel together; 0: each alone; unset: what suits the "
     "transport"},
    {"HOROVOD_CYCLE_TIME", parse_cycle,
     "milliseconds that a small tensor may wait for others to travel with; unset: 0"},
    {"HOROVOD_CACHE_CAPACITY", parse_cache,
     "tensors whose agreement is remembered; 0: none; unset: 57344, which is the most"},
    {"HOROVOD_LOG_LEVEL", parse_level, "trace, debug, info, warning, error or fatal"},
    {"HOROVOD_LOG_HIDE_TIME", parse_hide_time, "1: log lines carry no time"},
    {"HOROVOD_CPU_OPERATIONS", parse_cpu_operations,
     "tcp: connections even between ranks of one host; mpi: the MPI whose mpirun started the "
     "ranks; unset: what suits the hosts"},
    {"HOROVOD_GPU_OPERATIONS", parse_gpu_operations,
     "nccl: tensors of GPUs are reduced there, each rank having its own; host: they travel through "
     "the memory of the host, and ranks may share a GPU"},
    {"HOROVOD_NCCL_LIBRARY", parse_nccl_library,
     "the file libnccl.so.2; unset: the one that the framework has loaded, else the one that pip "
     "has installed, else the system's"},
    {"HOROVOD_GPU_BUFFER_LIMIT", parse_gpu_buffer_limit,
     "bytes of a GPU's memory that are kept for messages and results between collectives, until "
     "there was none for 10 s; 0: none; unset: 134217728"},
    {"HOROVOD_HIERARCHICAL_ALLREDUCE", parse_hierarchical,
     "1, on any rank: NCCL connects the ranks of each host alone; an allreduce of tensors of GPUs "
     "on several hosts goes through the memory of the host between them, other operations all the "
     "way; unset: NCCL connects the hosts"},
    {"HOROVOD_MPI_THREADS_DISABLE", parse_mpi_threads,
     "1: MPI is not asked for MPI_THREAD_MULTIPLE; only where nobody else calls it"},
    {"HOROVOD_DETERMINISTIC", parse_deterministic,
     "1, on any rank: MPI adds float16 and bfloat16 of many ranks on several hosts in rank order, "
     "as all other sums are; unset: in its own"},
    {"HOROVOD_ADASUM_HIERARCHICAL", parse_adasum,
     "1: Adasum averages inside of each host, and combines the averages; the same on all ranks; "
     "unset: it combines the tensors of all ranks"},
    {"HOROVOD_DYNAMIC_PROCESS_SETS", parse_dynamic_sets,
     "1: process sets may be added and removed after hvd.init()"},
    {"HOROVOD_AVERAGE_OVER", parse_average_over,
     "contributing: while ranks have joined, an average is that of the others; all or unset: the "
     "sum divided by all ranks. The same on all ranks"},
    {"HOROVOD_NETWORK_INTERFACES", parse_interfaces,
     "interfaces that connections between ranks may use: names, patterns, networks (eth0,ib*,"
     "10.0.0.0/8); unset: those that work"},
    {"HOROVOD_PORT_RANGE", parse_ports,
     "ports A-B that ranks may listen on while they connect; unset: any"},
    {"HOROVOD_LEASE", parse_lease,
     "seconds without an answer after which another host counts as cut off (default 30); 0: never; "
     "horovodrun --lease sets it"},
    {"HOROVOD_STALL_CHECK_DISABLE", parse_stall_disable, "1: stalls are not looked for"},
    {"HOROVOD_STALL_CHECK_TIME_SECONDS", parse_stall_warning,
     "seconds after which an operation that some ranks wait with is told; 0: none is; unset: 60"},
    {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", parse_stall_shutdown,
     "seconds after which such a stall ends the job; 0 or unset: never"},
    {"HOROVOD_TIMELINE", parse_timeline,
     "a file: rank 0 writes a Chrome trace of all collectives into it; DYNAMIC: not before "
     "hvd_timeline_start"},
    {"HOROVOD_TIMELINE_ALL", parse_timeline_folder,
     "a folder: each rank writes a trace, rank-N.json, into it"},
    {"HOROVOD_TIMELINE_MARK_CYCLES", parse_mark_cycles, "1: the trace shows the engine's cycles"},
    {"HOROVOD_START_TIMEOUT", parse_start_timeout, "seconds in which all ranks must have started"},
});

// Read by others than the engine: the launcher, the Python front ends, parts of the original.
constexpr auto kOtherVariables = std::to_array<std::string_view>({
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE",
    "HOROVOD_CROSS_RANK",
    "HOROVOD_CROSS_SIZE",
    "HOROVOD_HOSTNAME",
    "HOROVOD_JOB_ID",
    "HOROVOD_AGENT",
    "HOROVOD_AGENT_SOCKET",
    "HOROVOD_TASK_OF",
    "HOROVOD_ON_FAILURE",
    "HOROVOD_LAUNCHER_VARIABLES",
    "HOROVOD_MPIRUN",
    "HOROVOD_MPI_JOB",
    "HOROVOD_JOIN_TOKEN_FILE",
    "HOROVOD_JOB_KEY_FILE",
    "HOROVOD_LAUNCHER",
    "HOROVOD_MUNGE_SOCKET",
    "HOROVOD_LIBRARY",
    "HOROVOD_NVML_LIBRARY",
    "HOROVOD_REDUCE_THREADS",
    "HOROVOD_ELASTIC",
    "HOROVOD_ELASTIC_TIMEOUT",
    "HOROVOD_CONTROLLER",
    "HOROVOD_MPI_LIBRARY",
    "HOROVOD_GLOO_IFACE",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR",
    "HOROVOD_GLOO_RENDEZVOUS_PORT",
    "HOROVOD_SPARK_START_TIMEOUT",
    "HOROVOD_SPARK_PYTHONPATH",
    "HOROVOD_SPARK_WORK_DIR",
    "HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX",
    "HOROVOD_TEST_GPU",
    "HOROVOD_MIXED_INSTALL",
});

// Of the original's build: a user's shell may still have them.
constexpr auto kBuildPrefixes = std::to_array<std::string_view>({
    "HOROVOD_WITH",
    "HOROVOD_GPU",
    "HOROVOD_CUDA_HOME",
    "HOROVOD_ROCM_HOME",
    "HOROVOD_NCCL_",
    "HOROVOD_BUILD_",
    "HOROVOD_ALLOW_",
    "HOROVOD_CMAKE",
    "HOROVOD_DEBUG",
    "HOROVOD_SKIP_COMPILE",
    "HOROVOD_LOCAL_VERSION",
    "HOROVOD_NVTX_INCLUDE",
    "HOROVOD_MPICXX_SHOW",
});

}  // namespace

std::span<const ConfigVariable> config_variables() {
    return kVariables;
}

Result<EngineConfig> read_config(const Environment& environment) {
    EngineConfig config;
    for (const auto& variable : kVariables) {
        const auto text = find(environment, variable.name);
        if (!text || text->empty()) {
            continue;
        }
        if (auto parsed = variable.parse(trim(*text), config); !parsed) {
            return std::move(parsed).error().context(std::string(variable.name) + "='" + *text +
                                                     "'");
        }
    }
    return config;
}

StallLimits stall_limits(const EngineConfig& config) {
    StallLimits limits;
    if (config.is_stall_checked && config.stall_warning.count() != 0) {
        limits.warning = config.stall_warning;
        if (config.stall_shutdown > config.stall_warning) {
            limits.shutdown = config.stall_shutdown;
        }
    }
    return limits;
}

std::vector<std::string> idle_variables(const Environment& environment) {
    constexpr std::string_view kAutotune = "HOROVOD_AUTOTUNE";
    const auto value = find(environment, kAutotune);
    const bool is_told = find(environment, "HOROVOD_AGENT_SOCKET").has_value();
    if (is_told || !value || value->empty() || *value == "0") {
        return {};
    }
    return {std::string(kAutotune) + " has no effect in this version"};
}

std::vector<std::string> unknown_variables(const Environment& environment) {
    std::vector<std::string_view> known(kOtherVariables.begin(), kOtherVariables.end());
    known.insert(known.end(), coll::kIgnoredVariables.begin(), coll::kIgnoredVariables.end());
    for (const auto& variable : kVariables) {
        known.push_back(variable.name);
    }
    std::vector<std::string> sentences;
    for (const auto& [name, value] : environment) {
        const std::string_view word = name;
        if (!word.starts_with("HOROVOD_") || std::ranges::find(known, word) != known.end() ||
            std::ranges::any_of(kBuildPrefixes, [&](std::string_view prefix) {
                return word.starts_with(prefix);
            })) {
            continue;
        }
        auto sentence = "the variable " + name + " is unknown and has no effect";
        if (const auto close = nearest(word, known)) {
            sentence += ": did you mean " + std::string(*close) + "?";
        }
        sentences.push_back(std::move(sentence));
    }
    return sentences;
}

}  // namespace hvd::rt
