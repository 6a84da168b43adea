// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd::coll {

/// Where this process stands among the others: a value. Ranks of one host are consecutive in
/// local_rank; cross_* counts the hosts that have a rank with this local_rank.
struct Topology {
    int rank = 0;
    int size = 1;
    int local_rank = 0;
    int local_size = 1;
    int cross_rank = 0;
    int cross_size = 1;
    bool is_homogeneous = true;  // every host has as many ranks

    friend bool operator==(const Topology&, const Topology&) = default;
};

}  // namespace hvd::coll
