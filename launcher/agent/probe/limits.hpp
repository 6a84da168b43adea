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
    std::uint64_t soft_open_files =
        kNone;                         // the soft limit, which a rank may not know how to raise
    std::uint64_t processes = kNone;   // with threads, of the user; kNone also where root has none
    std::uint64_t used_processes = 0;  // of them
    std::uint64_t locked_bytes = kNone;
    std::uint64_t stack_bytes = kNone;
    std::uint64_t core_bytes = 0;
    bool has_core_files = false;  // else a program gets cores, or nobody
    bool has_rdma = false;        // a network that locks memory

    friend bool operator==(const Limits&, const Limits&) = default;
};

/// Counts processes only where their limit is low enough for that to matter.
[[nodiscard]] Limits read_limits();

struct LimitFindings {
    std::vector<wire::Problem> problems{};  // ranks cannot run
    std::vector<std::string> warnings{};    // they can, but may fail or be slow

    friend bool operator==(const LimitFindings&, const LimitFindings&) = default;
};

/// The resources that the ranks of this host need.
struct RankNeeds {
    std::size_t ranks = 0;
    std::size_t world = 0;        // ranks of the whole job
    std::size_t descriptors = 0;  // of the agent, for the ranks
    bool is_examination = false;  // whether to say what harms no job
};

/// Each finding has its remedy.
[[nodiscard]] LimitFindings judge(const Limits& limits, const RankNeeds& needs);

}  // namespace hvd::launch::agent
