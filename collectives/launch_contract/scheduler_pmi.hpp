// SPDX-License-Identifier: Apache-2.0
//
// Flux and Slurm speak PMI and PMIx themselves, and an MPI may start a server for itself: the
// variables then say nothing about a launcher further in. horovodrun and the runtime must see it
// the same way.
#pragma once

#include "collectives/base/env.hpp"

namespace hvd::coll {

/// Whether PMI_RANK and PMI_SIZE are those of a task of Flux, or of a Slurm step.
[[nodiscard]] bool has_pmi_of_scheduler(const Environment& environment);

/// Whether PMIX_RANK is that of a task of Flux, jsrun or a Slurm step.
[[nodiscard]] bool has_pmix_of_scheduler(const Environment& environment);

/// Whether PMIX_RANK is that of an Open MPI which nobody started, and which has a server for this
/// process alone.
[[nodiscard]] bool has_pmix_of_singleton(const Environment& environment);

}  // namespace hvd::coll
