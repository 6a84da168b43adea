// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/launch_plan.hpp"

#include <optional>
#include <string_view>
#include <utility>

namespace hvd::launch::agent {

/// First and last port that the kernel gives to outgoing connections, from the text of
/// /proc/sys/net/ipv4/ip_local_port_range.
[[nodiscard]] std::optional<std::pair<int, int>> parse_port_range(std::string_view text);

/// The `number`th port, counted round and round, of those that a service may take: above the
/// reserved ones and outside `ephemeral`.
[[nodiscard]] int pick_port(std::pair<int, int> ephemeral, unsigned number);

/// One from `first` to `last` at which nobody listens, the highest, since ranks begin with the
/// lowest. Nothing when all are in use.
[[nodiscard]] std::optional<int> find_port(int first, int last);

/// The facts that need no helper process: all but the GPUs.
[[nodiscard]] HostFacts collect_facts();

}  // namespace hvd::launch::agent
