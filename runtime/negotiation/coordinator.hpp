// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/negotiation/readiness.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

namespace hvd::rt {

/// The short name `id` is no longer valid: who has used it since must announce the unit by name.
struct Invalidation {
    std::uint32_t id = kNoId;

    friend bool operator==(const Invalidation&, const Invalidation&) = default;
};

/// What every rank is told, in this order.
using Verdict = std::variant<Decision, Invalidation>;

/// How many short names there may be.
struct CacheLimits {
    std::size_t capacity = 0;    // units that have one at a time; the oldest gives way. 0: none has
    std::size_t ids = 0;         // different ids; more than `capacity`
    std::size_t quarantine = 0;  // verdicts that pass before an id is given to another unit
};

/// Turns the announcements of all ranks into verdicts. Runs on rank 0 alone, so that there is one
/// order; a machine without I/O.
class Coordinator {
public:
    Coordinator(int ranks, const CacheLimits& limits);

    /// Takes what `rank` announced. Whatever it causes must reach every rank in order.
    [[nodiscard]] std::vector<Verdict> announce(int rank, Announcement announcement);

    [[nodiscard]] std::vector<ReadinessTable::Waiting> waiting() const { return table_.waiting(); }

private:
    struct Retired {
        std::uint32_t id;
        std::uint64_t since;  // verdicts given when it was retired
    };

    [[nodiscard]] std::uint32_t fresh_id(const std::string& unit, std::vector<Verdict>& verdicts);
    void retire(const std::string& unit, std::vector<Verdict>& verdicts);
    void give(Verdict verdict, std::vector<Verdict>& verdicts);

    CacheLimits limits_;
    ReadinessTable table_;
    struct Cached {
        std::uint32_t id;
        std::uint64_t since;  // key in by_age_
    };

    std::unordered_map<std::string, Cached> ids_;
    std::map<std::uint64_t, std::string> by_age_;  // units with an id, oldest first
    std::deque<Retired> retired_;
    std::uint32_t unused_ = 0;  // ids from here on were never given
    std::uint64_t given_ = 0;   // verdicts
};

}  // namespace hvd::rt
