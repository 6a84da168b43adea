// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/plan/process_spec.hpp"

#include <string>

namespace hvd::launch {

/// The plan for a person: a line per rank, then what all ranks have in common. Ends with a newline.
[[nodiscard]] std::string print_text(const LaunchPlan& plan);

/// The plan for a program, with a newline at the end:
///
///     {version: 1, mode, np, hosts: [{host, slots, starter}],
///      ranks: [{rank, host, local_rank, local_size, cross_rank, cross_size,
///               gpus: [{index, uuid}], cpus: [number], env: {name: value}, cwd, argv: [text]}]}
///
/// `env` is what the rank gets on top of horovodrun's environment; empty `cpus` mean that its
/// affinity is left alone. Bytes that are no UTF-8 are shown as U+FFFD. Fields are only ever added.
[[nodiscard]] std::string print_json(const LaunchPlan& plan);

}  // namespace hvd::launch
