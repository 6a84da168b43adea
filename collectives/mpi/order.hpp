// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd::coll::mpi {

/// How sums of f16 and bf16 may be added up; all others are in rank order.
enum class Order {
    by_rank,  // as everywhere
    any,      // MPI's own, where that is faster: identical on all ranks, and rounded once
};

}  // namespace hvd::coll::mpi
