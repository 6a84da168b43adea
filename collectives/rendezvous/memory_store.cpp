// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/memory_store.hpp"

namespace hvd::coll {

Status MemoryStore::put(std::string_view key, std::span<const std::byte> value) {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte> copy(value.begin(), value.end());
    const auto [entry, is_new] = values_.try_emplace(std::string(key), copy);
    if (!is_new && entry->second != copy) {
        return Error{Errc::invalid_argument,
                     "store key \"" + std::string(key) + "\" already has another value"};
    }
    changed_.notify_all();
    return ok();
}

Result<std::vector<std::byte>> MemoryStore::get(std::string_view key, Deadline deadline) {
    std::unique_lock lock(mutex_);
    const auto is_there = [&] { return values_.find(key) != values_.end(); };
    if (deadline.is_never()) {
        changed_.wait(lock, is_there);
    } else if (!changed_.wait_until(lock, *deadline.end(), is_there)) {
        return Error{Errc::timed_out, "store key \"" + std::string(key) + "\" was not put in time"};
    }
    return values_.find(key)->second;
}

}  // namespace hvd::coll
