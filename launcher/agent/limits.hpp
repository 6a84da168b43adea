// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/wire/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch::agent {

/// The limits that ranks of this host will have, and what there is to hold against them.
struct Limits {
    static constexpr auto kNone = std::numeric_limits<std::uint64_t>::max();

    std::uint64_t open_files = kNone;  // the hard one: the agent raises its own
    std::uint64_t processes = kNone;   // with threads, of the user; kNone also where root has none
    std::uint64_t used_processes = 0;  // of them
    std::uint64_t locked_bytes = kNone;
    std::uint64_t stack_bytes = kNone;
    bool has_rdma = false;  // a network that locks memory

    friend bool operator==(const Limits&, const Limits&) = default;
};

/// Counts processes only where their limit is low enough for that to matter.
[[nodiscard]] Limits read_limits();

struct LimitFindings {
    std::vector<wire::Problem> problems{};  // ranks cannot run
    std::vector<std::string> warnings{};    // they can, but may fail or be slow

    friend bool operator==(const LimitFindings&, const LimitFindings&) = default;
};

/// `descriptors` is how many the agent will need for the ranks. Each finding has its remedy.
[[nodiscard]] LimitFindings judge(const Limits& limits, std::size_t ranks, std::size_t descriptors);

}  // namespace hvd::launch::agent
