// SPDX-License-Identifier: Apache-2.0
//
// The traces that the ranks of a job have left in a folder become one, for Perfetto and
// chrome://tracing: a process for each rank, in it a thread for each tensor, all on one clock.
#pragma once

#include "collectives/base/result.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// Whether `merge_traces` takes a file of this name for the trace of a rank.
[[nodiscard]] bool is_trace_name(std::string_view name) noexcept;

/// Takes the next piece of the merged trace.
using TakeText = std::function<Status(std::string_view text)>;

/// Reads `rank-*.json` and `hosts.json` of the folder, one event at a time. Nothing is given to
/// `take` before all files are known to be of one job. Returns warnings, which are in the
/// merged trace too: ranks without a file, clocks that are not known, files that end too early.
/// Errors: invalid_argument for a folder without such files or with those of several jobs, and for
/// files that are no traces of ranks; unavailable for what cannot be read; those of `take`.
[[nodiscard]] Result<std::vector<std::string>> merge_traces(const std::filesystem::path& folder,
                                                            const TakeText& take);

}  // namespace hvd::launch
