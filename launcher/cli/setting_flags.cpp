// SPDX-License-Identifier: Apache-2.0
//
// Flags that set variables of the runtime, and keys of the config file. The order is that of
// --help.
#include "launcher/cli/draft.hpp"
#include "launcher/cli/flag.hpp"

namespace hvd::launch {
namespace {

using enum Kind;

constexpr std::array kTuning{
    setting("--fusion-threshold-mb MB",
            "tensors are fused up to this size; 0 turns fusion off",
            {"HOROVOD_FUSION_THRESHOLD", "params.fusion_threshold_mb", megabytes, 1'048'576}),
    setting("--cycle-time-ms MS",
            "how long small tensors may wait for others to be fused with; unset: not at all",
            {"HOROVOD_CYCLE_TIME", "params.cycle_time_ms", real, 60'000}),
    setting("--cache-capacity N",
            "how many agreed tensors are remembered; 0 turns the cache off; unset: 57,344, the "
            "most",
            {"HOROVOD_CACHE_CAPACITY", "params.cache_capacity", whole}),
    setting("--average-over all|contributing",
            "contributing: while ranks have joined (hvd.join()), an average is that of the "
            "others; all: their sum divided by the number of all ranks",
            {"HOROVOD_AVERAGE_OVER", "params.average_over", choice},
            {.standard = "all"}),
    setting(
        "--hierarchical-allreduce",
        "NCCL connects the ranks of each host alone: an allreduce of tensors of GPUs on several "
        "hosts goes through the memory of the host between them, other operations all the way",
        {"HOROVOD_HIERARCHICAL_ALLREDUCE", "params.hierarchical_allreduce"}),
    setting("--no-hierarchical-allreduce", "", {"HOROVOD_HIERARCHICAL_ALLREDUCE", "", off}),
    setting("--hierarchical-allgather",
            "",
            {"HOROVOD_HIERARCHICAL_ALLGATHER", "params.hierarchical_allgather"}),
    setting("--no-hierarchical-allgather", "", {"HOROVOD_HIERARCHICAL_ALLGATHER", "", off}),
    setting("--torus-allreduce", "", {"HOROVOD_TORUS_ALLREDUCE", "params.torus_allreduce"}),
    setting("--no-torus-allreduce", "", {"HOROVOD_TORUS_ALLREDUCE", "", off}),
};

constexpr std::array kAutotune{
    setting("--autotune", "", {"HOROVOD_AUTOTUNE", "autotune.enabled"}),
    setting("--no-autotune", "", {"HOROVOD_AUTOTUNE", "", off}),
    setting("--autotune-log-file FILE", "", {"HOROVOD_AUTOTUNE_LOG", "autotune.log_file", text}),
    setting("--autotune-warmup-samples N",
            "",
            {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "autotune.warmup_samples", whole}),
    setting("--autotune-steps-per-sample N",
            "",
            {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "autotune.steps_per_sample", whole}),
    setting("--autotune-bayes-opt-max-samples N",
            "",
            {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "autotune.bayes_opt_max_samples", whole}),
    setting(
        "--autotune-gaussian-process-noise X",
        "",
        {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "autotune.gaussian_process_noise", real, 1}),
};

constexpr std::array kTimeline{
    setting("--timeline-filename FILE",
            "rank 0 writes a Chrome trace of all collectives",
            {"HOROVOD_TIMELINE", "timeline.filename", text}),
    setting("--timeline-all DIR",
            "each rank writes a Chrome trace, rank-N.json, into this folder of its host; "
            "horovodrun timeline DIR merges them",
            {"HOROVOD_TIMELINE_ALL", "timeline.all", text}),
    setting("--timeline-mark-cycles",
            "mark the engine's cycles in the trace",
            {"HOROVOD_TIMELINE_MARK_CYCLES", "timeline.mark_cycles"}),
    setting("--no-timeline-mark-cycles", "", {"HOROVOD_TIMELINE_MARK_CYCLES", "", off}),
};

constexpr std::array kStallCheck{
    setting("--stall-check", "", {"HOROVOD_STALL_CHECK_DISABLE", "stall_check.enabled", off}),
    setting("--no-stall-check",
            "do not warn when some ranks wait for others for long",
            {"HOROVOD_STALL_CHECK_DISABLE", ""}),
    setting("--stall-check-warning-time-seconds SECONDS",
            "warn after this time; 0: never",
            {"HOROVOD_STALL_CHECK_TIME_SECONDS", "stall_check.warning_time_seconds", whole},
            {.standard = "60"}),
    setting("--stall-check-shutdown-time-seconds SECONDS",
            "end the job after this time; 0: never",
            {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "stall_check.shutdown_time_seconds", whole},
            {.standard = "0"}),
};

constexpr std::array kLibraries{
    setting("--mpi-threads-disable",
            "ask MPI for no more threads than are needed",
            {"HOROVOD_MPI_THREADS_DISABLE", "library_options.mpi_threads_disable"}),
    setting("--no-mpi-threads-disable", "", {"HOROVOD_MPI_THREADS_DISABLE", "", off}),
    setting("--num-nccl-streams N",
            "",
            {"HOROVOD_NUM_NCCL_STREAMS", "library_options.num_nccl_streams", whole}),
    setting("--thread-affinity CPU[,...]",
            "",
            {"HOROVOD_THREAD_AFFINITY", "library_options.thread_affinity", cpus}),
    setting("--gloo-timeout-seconds SECONDS",
            "",
            {"HOROVOD_GLOO_TIMEOUT_SECONDS", "library_options.gloo_timeout_seconds", whole}),
    flag("--tcp",
         "NCCL uses TCP instead of InfiniBand (NCCL_IB_DISABLE=1)",
         [](Draft& draft, std::string_view) {
             draft.request.environment.tunables["NCCL_IB_DISABLE"] = "1";
             draft.request.mpi.is_tcp = true;
             return ok();
         },
         {.places = in_job | in_doctor | in_task}),
};

constexpr std::array kLogging{
    setting("--log-level LEVEL",
            "TRACE, DEBUG, INFO, WARNING, ERROR or FATAL",
            {"HOROVOD_LOG_LEVEL", "logging.level", log_level}),
    setting("--log-with-timestamp", "", {"HOROVOD_LOG_HIDE_TIME", "logging.with_timestamp", off}),
    setting("--log-without-timestamp",
            "log lines of the ranks have no time",
            {"HOROVOD_LOG_HIDE_TIME", ""}),
    setting("--log-hide-timestamp", "", {"HOROVOD_LOG_HIDE_TIME", "logging.hide_timestamp"}),
    setting("--no-log-hide-timestamp", "", {"HOROVOD_LOG_HIDE_TIME", "", off}),
};

constexpr std::array kGroups{
    FlagGroup{"Tuning", kTuning},       FlagGroup{"Autotune", kAutotune},
    FlagGroup{"Timeline", kTimeline},   FlagGroup{"Stall check", kStallCheck},
    FlagGroup{"Libraries", kLibraries}, FlagGroup{"Logging", kLogging}};

}  // namespace

std::span<const FlagGroup> setting_flags() noexcept {
    return kGroups;
}

}  // namespace hvd::launch
