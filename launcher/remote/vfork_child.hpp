// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"

#include <csignal>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvd::launch {

/// A program to be executed in a new session, with the limit of open files that horovodrun
/// inherited.
struct ChildOrder {
    std::string file;               // without a slash: looked for in PATH
    std::vector<std::string> argv;  // the name first
    std::span<const int> streams;   // for descriptors 0, 1, ...; none of them is one of these
    sigset_t signal_mask{};
    const Environment* environment = nullptr;  // null: ours
};

/// Starts it, at the price of no copied page table. Errors: unavailable with the name of the file,
/// also where it could not be executed. The child is the caller's to reap.
[[nodiscard]] Result<pid_t> spawn_by_vfork(const ChildOrder& order);

}  // namespace hvd::launch
