// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/scheduler_pmi.hpp"

#include <string_view>

namespace hvd::coll {
namespace {

bool is_same(const Environment& environment, std::string_view a, std::string_view b) {
    const auto first = find(environment, a);
    return first && first == find(environment, b);
}

}  // namespace

bool has_pmi_of_scheduler(const Environment& environment) {
    return (is_same(environment, "PMI_RANK", "FLUX_TASK_RANK") &&
            is_same(environment, "PMI_SIZE", "FLUX_JOB_SIZE")) ||
           (find(environment, "SLURM_STEP_ID") && !find(environment, "MPI_LOCALRANKID") &&
            is_same(environment, "PMI_RANK", "SLURM_PROCID") &&
            is_same(environment, "PMI_SIZE", "SLURM_STEP_NUM_TASKS"));
}

bool has_pmix_of_scheduler(const Environment& environment) {
    const auto space = find(environment, "PMIX_NAMESPACE");
    const bool is_of_slurm = !space || space->starts_with("slurm.pmix.");
    return is_same(environment, "PMIX_RANK", "FLUX_TASK_RANK") ||
           is_same(environment, "PMIX_RANK", "JSM_NAMESPACE_RANK") ||
           (find(environment, "SLURM_STEP_ID") && is_of_slurm &&
            is_same(environment, "PMIX_RANK", "SLURM_PROCID"));
}

bool has_pmix_of_singleton(const Environment& environment) {
    return find(environment, "OMPI_MCA_ess") == "singleton";
}

}  // namespace hvd::coll
