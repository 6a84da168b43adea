// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/process_set.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace hvd::rt {

/// A process set that exists, or has existed while an operation still refers to it.
struct ProcessSetEntry {
    coll::ProcessSet set;
    std::atomic<bool> is_removed{false};
    std::atomic<std::size_t> users{0};  // operations and lanes that refer to it; not of the world
};

/// The set `id` of `ranks` of the world, in any order, as the rank sees it whose world it is.
[[nodiscard]] coll::ProcessSet make_process_set(int id,
                                                std::span<const std::int64_t> ranks,
                                                const coll::ProcessSet& world);

/// The process sets of one world, the world itself included, by id.
///
/// Thread: any for what is const; `add` and `remove` need the progress lock. Entries stay where
/// they are until nothing uses them.
class ProcessSetTable {
public:
    explicit ProcessSetTable(coll::ProcessSet world);

    [[nodiscard]] ProcessSetEntry& world() const noexcept { return *world_; }

    /// The set, kept for an operation until `release`. Errors: invalid_argument for an id that no
    /// set has.
    [[nodiscard]] Result<ProcessSetEntry*> acquire(int id) const;
    /// Keeps a set that is kept already once more. The world stays without being counted.
    static void keep(ProcessSetEntry& entry) noexcept {
        if (entry.set.id != 0) {
            entry.users.fetch_add(1, std::memory_order_relaxed);
        }
    }
    static void release(ProcessSetEntry& entry) noexcept {
        if (entry.set.id != 0) {
            entry.users.fetch_sub(1, std::memory_order_acq_rel);
        }
    }

    /// The set, for the holder of the progress lock; nullptr for an id that no set has.
    [[nodiscard]] ProcessSetEntry* find(int id) const;

    /// The set with exactly these ranks, in any order; nothing where there is none.
    [[nodiscard]] std::optional<int> find_equal(std::span<const std::int64_t> ranks) const;

    /// Ids of all sets, ascending; the world's is 0.
    [[nodiscard]] std::vector<int> ids() const;

    /// The ranks of a set, ascending. Errors: as acquire.
    [[nodiscard]] Result<std::vector<int>> ranks(int id) const;

    /// `ranks` are those of the world, in any order. Every rank adds and removes the same sets in
    /// the same order.
    const coll::ProcessSet& add(int id, std::span<const std::int64_t> ranks);
    void remove(int id);

private:
    void free_unused();  // needs mutex_

    mutable std::mutex mutex_;
    std::map<int, std::unique_ptr<ProcessSetEntry>> entries_;  // guarded by mutex_
    std::vector<std::unique_ptr<ProcessSetEntry>> removed_;    // guarded by mutex_; still in use
    std::uint32_t removals_ = 0;                               // guarded by mutex_
    ProcessSetEntry* world_;
};

}  // namespace hvd::rt
