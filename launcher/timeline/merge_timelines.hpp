// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/requests.hpp"

namespace hvd::launch {

/// `horovodrun timeline`: merges the traces of a folder into a file, which appears whole or not at
/// all, or onto standard output. Says what went wrong on standard error; returns the exit code.
[[nodiscard]] int merge_timelines(const MergeTimelines& request);

}  // namespace hvd::launch
