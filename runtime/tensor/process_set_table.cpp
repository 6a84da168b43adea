// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/process_set_table.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace hvd::rt {
namespace {

std::vector<int> sorted_ranks(std::span<const std::int64_t> ranks) {
    std::vector<int> sorted;
    sorted.reserve(ranks.size());
    for (const auto rank : ranks) {
        sorted.push_back(static_cast<int>(rank));
    }
    std::ranges::sort(sorted);
    return sorted;
}

}  // namespace

coll::ProcessSet make_process_set(int id,
                                  std::span<const std::int64_t> ranks,
                                  const coll::ProcessSet& world) {
    coll::ProcessSet set;
    set.id = id;
    set.ranks = sorted_ranks(ranks);
    set.place = -1;
    for (std::size_t place = 0; place < set.ranks.size(); ++place) {
        if (set.ranks[place] == world.place) {
            set.place = static_cast<int>(place);
        }
        set.hosts.push_back(world.hosts[static_cast<std::size_t>(set.ranks[place])]);
    }
    return set;
}

ProcessSetTable::ProcessSetTable(coll::ProcessSet world) {
    auto entry = std::make_unique<ProcessSetEntry>();
    entry->set = std::move(world);
    world_ = entry.get();
    entries_.emplace(0, std::move(entry));
}

Result<ProcessSetEntry*> ProcessSetTable::acquire(int id) const {
    if (id == 0) {
        return world_;
    }
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) {
        return Error{Errc::invalid_argument, "there is no process set " + std::to_string(id)};
    }
    keep(*found->second);
    return found->second.get();
}

ProcessSetEntry* ProcessSetTable::find(int id) const {
    if (id == 0) {
        return world_;
    }
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    return found == entries_.end() ? nullptr : found->second.get();
}

std::optional<int> ProcessSetTable::find_equal(std::span<const std::int64_t> ranks) const {
    const auto wanted = sorted_ranks(ranks);
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_) {
        if (entry->set.ranks == wanted) {
            return id;
        }
    }
    return std::nullopt;
}

std::vector<int> ProcessSetTable::ids() const {
    const std::lock_guard lock(mutex_);
    std::vector<int> ids;
    ids.reserve(entries_.size());
    for (const auto& [id, entry] : entries_) {
        ids.push_back(id);
    }
    return ids;
}

Result<std::vector<int>> ProcessSetTable::ranks(int id) const {
    HVD_TRY(auto* const entry, acquire(id));
    auto ranks = entry->set.ranks;
    release(*entry);
    return ranks;
}

const coll::ProcessSet& ProcessSetTable::add(int id, std::span<const std::int64_t> ranks) {
    auto entry = std::make_unique<ProcessSetEntry>();
    entry->set = make_process_set(id, ranks, world_->set);
    const std::lock_guard lock(mutex_);
    entry->set.incarnation = removals_;
    free_unused();
    return entries_.insert_or_assign(id, std::move(entry)).first->second->set;
}

void ProcessSetTable::remove(int id) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found != entries_.end() && id != 0) {
        found->second->is_removed.store(true, std::memory_order_release);
        removed_.push_back(std::move(found->second));
        entries_.erase(found);
        ++removals_;
    }
    free_unused();
}

void ProcessSetTable::free_unused() {
    std::erase_if(removed_, [](const auto& entry) {
        return entry->users.load(std::memory_order_acquire) == 0;
    });
}

}  // namespace hvd::rt
