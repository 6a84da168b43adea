// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/negotiation/messages.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <cstddef>
#include <vector>

namespace hvd::rt {

/// A tensor of a group, as it was agreed.
struct AgreedTensor {
    Signature signature;
    std::vector<std::int64_t> first_dims;  // see Decision
    const DeviceList* devices = nullptr;   // see Operation
};

/// A tensor group that the ranks of its set call by a cache id.
struct Agreement {
    ProcessSetEntry* set = nullptr;  // nullptr: the id is not in use
    Name* group = nullptr;
    Operation* waiting = nullptr;   // this rank has set its ready bit
    bool is_transient = false;      // ends with the first time that it is ready
    bool has_asked = false;         // for names, since `waiting` has begun to wait
    std::size_t carried_bytes = 0;  // see carried.hpp; kNotCarried for a group
    std::uint64_t number = 0;       // no other agreement of the process has it
    std::vector<AgreedTensor> tensors;
};

/// Whether the group, a plan's, has run by this agreement before: nothing of it has changed.
[[nodiscard]] inline bool is_ready(const Operation& leader, const Agreement& agreement) noexcept {
    return leader.agreement == agreement.number;
}

/// The agreed operations, by cache id: a steady step needs no names.
///
/// Thread: progress lock.
class Agreements {
public:
    explicit Agreements(TicketTable& tickets) noexcept : tickets_(tickets) {}

    /// Whether the group has an id and all its members are as they were when it was agreed.
    [[nodiscard]] bool has(const Operation& leader) const;

    /// The agreement of a group that has one.
    [[nodiscard]] Agreement& of(const Operation& leader) { return table_[leader.group->cache_id]; }

    /// nullptr for an id that this rank does not know.
    [[nodiscard]] Agreement* find(CacheId id) noexcept {
        return id < table_.size() && table_[id].set != nullptr ? &table_[id] : nullptr;
    }

    /// Keeps what was decided about a group under its id.
    Agreement& add(const Decision& decision, const Operation& leader);

    /// Ends the agreement. Returns the operation that waited, or nullptr.
    Operation* drop(CacheId id);

    /// Calls `function` with each agreement whose ready bit this rank has set.
    template <class Function>
    void for_each_waiting(Function function) {
        for (auto& agreement : table_) {
            if (agreement.set != nullptr && agreement.waiting != nullptr) {
                function(agreement);
            }
        }
    }

    /// Ids for which `matches(set)` holds, ascending.
    template <class Matches>
    [[nodiscard]] std::vector<CacheId> ids_of(Matches matches) const {
        std::vector<CacheId> ids;
        for (std::size_t id = 0; id < table_.size(); ++id) {
            if (table_[id].set != nullptr && matches(table_[id].set->set)) {
                ids.push_back(static_cast<CacheId>(id));
            }
        }
        return ids;
    }

private:
    TicketTable& tickets_;
    std::vector<Agreement> table_;  // by id
};

/// Allocates what the library provides of the group's outputs. Nothing where all is there; else
/// why not.
[[nodiscard]] std::string allocate_outputs(Operation& leader, const coll::ProcessSet& set);

}  // namespace hvd::rt
