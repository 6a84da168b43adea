// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace hvd::launch {

/// The launcher of a task that is a rank of horovodrun.
inline constexpr std::string_view kHorovodrun = "horovodrun";

/// Which process of which world a launcher, mostly another one, made this one.
struct Task {
    std::string_view launcher;  // as printed: "mpirun"
    int rank = 0;
    int size = 1;         // 0: only its PMIx server tells
    int local_rank = -1;  // -1: it does not say
    int local_size = 0;   // 0: it does not say
    int cross_rank = -1;  // -1: it does not say enough to tell
    int cross_size = 0;

    friend bool operator==(const Task&, const Task&) = default;
};

}  // namespace hvd::launch
