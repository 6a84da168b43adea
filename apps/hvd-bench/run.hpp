// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/hvd-bench/options.hpp"

namespace hvd::bench {

/// Joins the world, measures every size and prints the table from rank 0. Returns the exit code: 1
/// when data was wrong. Throws hvd::Failure, also for what does not fit the number of ranks and for
/// files that cannot be written.
[[nodiscard]] int run(const Options& options);

}  // namespace hvd::bench
