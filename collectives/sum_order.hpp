// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd::coll {

/// How sums of ranks on several hosts may be added up; on one host they are in rank order. All
/// ranks of a world have the same, and get the same bits.
enum class SumOrder {
    by_rank,
    any,  // what is faster; f16 and bf16 are rounded once all the same
};

}  // namespace hvd::coll
