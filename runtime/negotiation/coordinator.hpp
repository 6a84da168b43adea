// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/negotiation/id_pool.hpp"
#include "runtime/negotiation/readiness.hpp"
#include "runtime/negotiation/set_ids.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

namespace hvd::rt {

/// The cache id is no longer valid: a rank that has used it since announces the group by name.
struct Invalidation {
    int process_set = 0;
    CacheId id = kNoId;

    friend bool operator==(const Invalidation&, const Invalidation&) = default;
};

/// An entry of the log, which the members of a set, or all ranks, read in the same order.
using LogEntry = std::variant<Decision, Invalidation>;

/// Turns the announcements of all ranks about all process sets into the entries of the log. Runs on
/// rank 0 alone, so that there is one order; a machine without I/O.
class Coordinator {
public:
    Coordinator(int ranks, const CacheLimits& limits);

    /// Takes what `rank` announced, which came at `now`. Whatever comes of it must be appended to
    /// the log in order. Errors: internal for what no rank of this version announces.
    [[nodiscard]] Result<std::vector<LogEntry>> announce(int rank,
                                                         Announcement announcement,
                                                         Waiting::TimePoint now = {});

    /// Has read in the log that the rank has left, and that some set goes on without it. Every rank
    /// forgets the sets of which it was a member, and nothing is decided about them any more.
    void on_left(int rank);

    /// Has read in the log that the ids are ready: transient ones end.
    void on_ready(std::span<const CacheId> ids);

    /// The waiting tensors, with the ranks that they wait for.
    [[nodiscard]] std::vector<Waiting> waiting() const;
    [[nodiscard]] bool has_waiting() const;

private:
    struct Cached {
        CacheId id;
        std::uint64_t since;  // key in by_age
        bool is_transient = false;
        std::vector<std::string> members{};
    };
    /// A group whose id ends with its first use.
    struct Transient {
        int process_set;
        std::string group;
    };
    /// The announcements and cache ids of one process set.
    struct SetState {
        explicit SetState(std::vector<int> ranks) : table(std::move(ranks)) {}

        ReadinessTable table;
        std::unordered_map<std::string, Cached> cached;            // by the name of the group
        std::unordered_map<std::string, std::string> cached_with;  // that name, by a member's
        std::map<std::uint64_t, std::string> by_age;  // those that keep theirs, oldest first
    };

    void announce_join(int rank, coll::Device device, std::vector<LogEntry>& entries);
    void forget_joins();
    void decide_waiting(int rank, std::vector<LogEntry>& entries);
    void decide(int set_id, int last, AnnouncedGroup group, std::vector<LogEntry>& entries);
    void decide_collective(int set_id, Decision& decision, std::vector<LogEntry>& entries);
    void decide_membership(Decision& decision);
    void give_id(int set_id, Decision& decision, std::vector<LogEntry>& entries);
    void retire(int set_id, const std::string& group, std::vector<LogEntry>& entries);
    void forget(SetState& state, const std::string& group);
    void retire_all(SetState& state);
    void give_back(CacheId id);
    void append(LogEntry entry, std::vector<LogEntry>& entries);

    std::size_t ranks_;
    IdPool pool_;
    std::map<int, SetState> sets_;  // by id
    SetIds set_ids_;
    std::vector<int> joined_;                  // in the order in which they have
    std::map<int, std::int32_t> joined_gpus_;  // of those that have one, by rank
    std::unordered_map<CacheId, Transient> transient_;
    std::unordered_set<CacheId> awaiting_;  // memory of some rank, and have not been ready
};

}  // namespace hvd::rt
