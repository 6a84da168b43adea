// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/tunables.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace hvd::launch {
namespace {

using enum TunableKind;

constexpr double kMaxInt = std::numeric_limits<int>::max();
constexpr double kBytesPerMegabyte = 1'048'576;
constexpr std::string_view kAutotune = "HOROVOD_AUTOTUNE";
constexpr std::string_view kTimelineFile = "HOROVOD_TIMELINE";
constexpr std::string_view kTimelineAll = "HOROVOD_TIMELINE_ALL";

constexpr std::array kTunables{
    Tunable{.flag = "--fusion-threshold-mb",
            .variable = "HOROVOD_FUSION_THRESHOLD",
            .key = "params.fusion_threshold_mb",
            .kind = megabytes,
            .high = 1'048'576,
            .value_name = "MB",
            .help = "tensors are fused up to this size; 0 turns fusion off"},
    Tunable{
        .flag = "--cycle-time-ms",
        .variable = "HOROVOD_CYCLE_TIME",
        .key = "params.cycle_time_ms",
        .kind = real,
        .high = 60'000,
        .value_name = "MS",
        .help = "how long small tensors may wait for others to be fused with; unset: not at all"},
    Tunable{.flag = "--cache-capacity",
            .variable = "HOROVOD_CACHE_CAPACITY",
            .key = "params.cache_capacity",
            .kind = whole,
            .high = kMaxInt,
            .value_name = "N",
            .help = "how many agreed tensors are remembered; 0 turns the cache off; unset: "
                    "57,344, the most"},
    Tunable{.flag = "--hierarchical-allreduce",
            .off_flag = "--no-hierarchical-allreduce",
            .variable = "HOROVOD_HIERARCHICAL_ALLREDUCE",
            .key = "params.hierarchical_allreduce",
            .help = "allreduce inside each host first, then between hosts",
            .off_help = "never, not even while autotuning",
            .is_idle = true},
    Tunable{.flag = "--hierarchical-allgather",
            .off_flag = "--no-hierarchical-allgather",
            .variable = "HOROVOD_HIERARCHICAL_ALLGATHER",
            .key = "params.hierarchical_allgather",
            .help = "allgather inside each host first, then between hosts",
            .off_help = "never, not even while autotuning",
            .is_idle = true},
    Tunable{.flag = "--torus-allreduce",
            .off_flag = "--no-torus-allreduce",
            .variable = "HOROVOD_TORUS_ALLREDUCE",
            .key = "params.torus_allreduce",
            .help = "reduce-scatter in each host, allreduce across, allgather in each host",
            .off_help = "never, not even while autotuning",
            .is_idle = true},

    Tunable{.flag = "--autotune",
            .off_flag = "--no-autotune",
            .variable = kAutotune,
            .key = "autotune.enabled",
            .help = "try settings of fusion and cycle time while training, and keep the best",
            .is_idle = true},
    Tunable{.flag = "--autotune-log-file",
            .variable = "HOROVOD_AUTOTUNE_LOG",
            .key = "autotune.log_file",
            .kind = text,
            .value_name = "FILE",
            .help = "what was tried, as comma separated values, written by rank 0",
            .is_idle = true},
    Tunable{.flag = "--autotune-warmup-samples",
            .variable = "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
            .key = "autotune.warmup_samples",
            .kind = whole,
            .high = kMaxInt,
            .value_name = "N",
            .help = "samples to discard before tuning begins",
            .is_idle = true},
    Tunable{.flag = "--autotune-steps-per-sample",
            .variable = "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
            .key = "autotune.steps_per_sample",
            .kind = whole,
            .high = kMaxInt,
            .value_name = "N",
            .help = "steps that make one sample",
            .is_idle = true},
    Tunable{.flag = "--autotune-bayes-opt-max-samples",
            .variable = "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
            .key = "autotune.bayes_opt_max_samples",
            .kind = whole,
            .high = kMaxInt,
            .value_name = "N",
            .help = "samples after which the best settings stay",
            .is_idle = true},
    Tunable{.flag = "--autotune-gaussian-process-noise",
            .variable = "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
            .key = "autotune.gaussian_process_noise",
            .kind = real,
            .high = 1,
            .value_name = "X",
            .help = "expected noise of the samples, 0 to 1",
            .is_idle = true},

    Tunable{.flag = "--timeline-filename",
            .variable = kTimelineFile,
            .key = "timeline.filename",
            .kind = text,
            .value_name = "FILE",
            .help = "rank 0 writes a Chrome trace of all collectives"},
    Tunable{.flag = "--timeline-all",
            .variable = kTimelineAll,
            .key = "timeline.all",
            .kind = text,
            .value_name = "DIR",
            .help = "each rank writes a Chrome trace, rank-N.json, into this folder of its host; "
                    "`horovodrun timeline DIR` merges them"},
    Tunable{.flag = "--timeline-mark-cycles",
            .off_flag = "--no-timeline-mark-cycles",
            .variable = "HOROVOD_TIMELINE_MARK_CYCLES",
            .key = "timeline.mark_cycles",
            .help = "mark the engine's cycles in the trace"},

    Tunable{.flag = "--stall-check",
            .off_flag = "--no-stall-check",
            .variable = "HOROVOD_STALL_CHECK_DISABLE",
            .key = "stall_check.enabled",
            .off_help = "do not warn when some ranks wait for others for long",
            .inverted = true},
    Tunable{.flag = "--stall-check-warning-time-seconds",
            .variable = "HOROVOD_STALL_CHECK_TIME_SECONDS",
            .key = "stall_check.warning_time_seconds",
            .kind = whole,
            .high = kMaxInt,
            .value_name = "SECONDS",
            .help = "warn after this time; 0: never; unset: 60"},
    Tunable{.flag = "--stall-check-shutdown-time-seconds",
            .variable = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
            .key = "stall_check.shutdown_time_seconds",
            .kind = whole,
            .high = kMaxInt,
            .value_name = "SECONDS",
            .help = "end the job after this time; 0: never"},

    Tunable{.flag = "--mpi-threads-disable",
            .off_flag = "--no-mpi-threads-disable",
            .variable = "HOROVOD_MPI_THREADS_DISABLE",
            .key = "library_options.mpi_threads_disable",
            .help = "ask MPI for no more threads than are needed"},
    Tunable{.flag = "--num-nccl-streams",
            .variable = "HOROVOD_NUM_NCCL_STREAMS",
            .key = "library_options.num_nccl_streams",
            .kind = whole,
            .high = kMaxInt,
            .value_name = "N",
            .help = "NCCL streams that are used in turn",
            .is_idle = true},
    Tunable{.flag = "--thread-affinity",
            .variable = "HOROVOD_THREAD_AFFINITY",
            .key = "library_options.thread_affinity",
            .kind = cpus,
            .value_name = "CPU[,...]",
            .help = "the engine thread's CPU, one for each rank of a host",
            .is_idle = true},
    Tunable{.flag = "--gloo-timeout-seconds",
            .variable = "HOROVOD_GLOO_TIMEOUT_SECONDS",
            .key = "library_options.gloo_timeout_seconds",
            .kind = whole,
            .high = kMaxInt,
            .value_name = "SECONDS",
            .help = "time limit for connecting the ranks",
            .is_idle = true},

    Tunable{.flag = "--log-level",
            .variable = "HOROVOD_LOG_LEVEL",
            .key = "logging.level",
            .kind = log_level,
            .value_name = "LEVEL",
            .help = "TRACE, DEBUG, INFO, WARNING, ERROR or FATAL"},
    Tunable{.flag = "--log-with-timestamp",
            .off_flag = "--log-without-timestamp",
            .variable = "HOROVOD_LOG_HIDE_TIME",
            .key = "logging.with_timestamp",
            .off_help = "log lines of the ranks have no time",
            .inverted = true},
    Tunable{.flag = "--log-hide-timestamp",
            .off_flag = "--no-log-hide-timestamp",
            .variable = "HOROVOD_LOG_HIDE_TIME",
            .key = "logging.hide_timestamp"},
};

Error out_of_range(std::string_view text, std::string_view what) {
    return {Errc::invalid_argument, "'" + std::string(text) + "' must be " + std::string(what)};
}

std::string show(double limit) {
    return std::to_string(static_cast<std::int64_t>(limit));
}

std::string range(const Tunable& tunable) {
    return " from " + show(tunable.low) + " to " + show(tunable.high);
}

bool is_inside(const Tunable& tunable, double value) noexcept {
    return value >= tunable.low && value <= tunable.high;  // false for "nan" too
}

Result<std::string> export_real(const Tunable& tunable, std::string_view text) {
    const auto value = parse_number<double>(text);
    if (!value || !is_inside(tunable, *value)) {
        return out_of_range(text, "a number" + range(tunable));
    }
    if (tunable.kind == megabytes) {
        return std::to_string(static_cast<std::int64_t>(*value * kBytesPerMegabyte));
    }
    return std::string(text);
}

Result<std::string> export_log_level(std::string_view text) {
    constexpr std::array<std::string_view, 6> kLevels{"TRACE",   "DEBUG", "INFO",
                                                      "WARNING", "ERROR", "FATAL"};
    std::string upper(text);
    std::ranges::transform(upper, upper.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (std::ranges::find(kLevels, upper) == kLevels.end()) {
        return out_of_range(text, "TRACE, DEBUG, INFO, WARNING, ERROR or FATAL");
    }
    return upper;
}

Result<std::string> export_cpus(std::string_view text) {
    for (const auto part : split(text, ',')) {
        if (!parse_number<std::uint16_t>(part)) {
            return out_of_range(text, "CPU numbers with commas between them, such as 0,4,8");
        }
    }
    return std::string(text);
}

/// The settings of which one must be on for `variable` to be of use, if there are any.
std::vector<std::string_view> needed_by(std::string_view variable) {
    if (variable.starts_with(kAutotune) && variable != kAutotune) {
        return {kAutotune};
    }
    if (variable.starts_with(kTimelineFile) && variable != kTimelineFile &&
        variable != kTimelineAll) {
        return {kTimelineFile, kTimelineAll};
    }
    return {};
}

/// Whether a flag, the config file or, where neither says anything, the environment has it on.
bool is_on(std::string_view variable, const TunableValues& values, const Environment& environment) {
    const auto value = values.find(variable);
    return value == values.end() ? environment.contains(std::string(variable))
                                 : value->second != "0";
}

/// Whether the user has asked for something by it: "no" to what is not there is obeyed.
bool is_asked_for(const Tunable& tunable, const TunableValues& values) {
    const auto value = values.find(tunable.variable);
    const auto* const no = tunable.inverted ? "1" : "0";
    return value != values.end() && (tunable.kind != boolean || value->second != no);
}

/// One sentence about everything that was asked for in vain, or nothing.
std::string note_idle(const TunableValues& flags,
                      const TunableValues& values,
                      const Environment& environment) {
    std::vector<std::string> names;
    for (const auto& tunable : kTunables) {
        if (tunable.is_idle && is_asked_for(tunable, values)) {
            names.push_back(flags.contains(tunable.variable)
                                ? std::string(tunable.flag)
                                : "'" + std::string(tunable.key) + "' of the config file");
        }
    }
    // The runtime warns of it where no horovodrun does.
    const auto autotune = environment.find(kAutotune);
    if (!values.contains(kAutotune) && autotune != environment.end() && !autotune->second.empty() &&
        autotune->second != "0") {
        names.emplace_back(kAutotune);
    }
    return names.empty() ? ""
                         : join(names, ", ") + (names.size() == 1 ? " has" : " have") +
                               " no effect in this version";
}

}  // namespace

std::span<const Tunable> tunables() noexcept {
    return kTunables;
}

Result<std::string> export_value(const Tunable& tunable, std::string_view text) {
    switch (tunable.kind) {
        case whole: {
            const auto value = parse_number<std::int64_t>(text);
            if (!value || !is_inside(tunable, static_cast<double>(*value))) {
                return out_of_range(text, "a whole number" + range(tunable));
            }
            return std::to_string(*value);
        }
        case real:
        case megabytes: return export_real(tunable, text);
        case boolean: return std::string((text == "1") != tunable.inverted ? "1" : "0");
        case TunableKind::text:
            if (text.empty()) {
                return out_of_range(text, "a file name");
            }
            return std::string(text);
        case cpus: return export_cpus(text);
        case log_level: return export_log_level(text);
    }
    return Error{Errc::internal, "unknown kind of setting"};
}

Status check_exported(const Tunable& tunable, std::string_view value) {
    if (tunable.kind == boolean && value != "0" && value != "1") {
        return out_of_range(value, "0 or 1");
    }
    if (tunable.kind == megabytes) {
        return parse_number<std::uint64_t>(value) ? ok()
                                                  : out_of_range(value, "a whole number of bytes");
    }
    HVD_TRY_STATUS(export_value(tunable, value));
    return ok();
}

ExportedTunables export_tunables(const TunableValues& flags,
                                 const TunableValues& config,
                                 const Environment& environment) {
    TunableValues values = flags;
    values.insert(config.begin(), config.end());  // keeps what the flags said

    ExportedTunables exported{.variables = {}, .note = note_idle(flags, values, environment)};
    for (const auto& tunable : kTunables) {
        const auto value = values.find(tunable.variable);
        if (value == values.end()) {
            continue;
        }
        const auto needs = needed_by(tunable.variable);
        const bool is_idle =
            !needs.empty() && std::ranges::none_of(needs, [&](std::string_view need) {
                return is_on(need, values, environment);
            });
        const bool is_off = tunable.variable == kAutotune && value->second == "0";
        if (!is_idle && (!is_off || environment.contains(kAutotune))) {
            exported.variables.emplace(tunable.variable, value->second);
        }
    }
    return exported;
}

}  // namespace hvd::launch
