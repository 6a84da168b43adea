// SPDX-License-Identifier: Apache-2.0
//
// The messages about hosts whose agents did not come up. Pure.
#pragma once

#include "launcher/supervise/job_result.hpp"

#include <span>
#include <string>
#include <vector>

namespace hvd::launch {

/// A sentence for each host, those that differ in nothing but name and address in one; then who was
/// not waited for.
[[nodiscard]] std::vector<std::string> tell_link_failures(const std::vector<HostResult>& failed,
                                                          const std::vector<std::string>& missing);

/// "a, b and 7 more hosts".
[[nodiscard]] std::string short_list(std::span<const std::string> names);

}  // namespace hvd::launch
