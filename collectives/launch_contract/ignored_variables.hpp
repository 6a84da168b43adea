// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace hvd::coll {

/// Settings of the original that are accepted and have no effect: the engine decides by itself what
/// they set, or does not have it yet.
inline constexpr auto kIgnoredVariables = std::to_array<std::string_view>({
    "HOROVOD_HIERARCHICAL_ALLGATHER",
    "HOROVOD_TORUS_ALLREDUCE",
    "HOROVOD_BATCH_D2D_MEMCOPIES",
    "HOROVOD_DISABLE_GROUP_FUSION",
    "HOROVOD_ENABLE_ASYNC_COMPLETION",
    "HOROVOD_ENABLE_XLA_OPS",
    "HOROVOD_AUTOTUNE",
    "HOROVOD_AUTOTUNE_LOG",
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
    "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
    "HOROVOD_ADASUM_MPI_CHUNK_SIZE",
    "HOROVOD_NUM_NCCL_STREAMS",
    "HOROVOD_THREAD_AFFINITY",
    "HOROVOD_DISABLE_NVTX_RANGES",
    "HOROVOD_GLOO_TIMEOUT_SECONDS",
    "HOROVOD_CCL_BGT_AFFINITY",
    "HOROVOD_CCL_CACHE",
});

}  // namespace hvd::coll
