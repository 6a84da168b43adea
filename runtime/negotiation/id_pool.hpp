// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/tensor/operation.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>

namespace hvd::rt {

/// How many cache ids there may be.
struct CacheLimits {
    std::size_t capacity = 0;  // groups that have one at a time; the oldest gives way. 0: none has
    std::size_t ids = 0;       // different ids; more than `capacity`
    std::size_t quarantine = 0;  // log entries that pass before an id is given to another group
};

/// Cache ids that are free. A retired id may still be used by ranks that have not read of its end,
/// so it is not given out again before a number of log entries has passed.
class IdPool {
public:
    explicit IdPool(const CacheLimits& limits) : limits_(limits) {}

    /// An entry has been appended to the log.
    void count_entry() noexcept { ++entries_; }
    [[nodiscard]] std::uint64_t entries() const noexcept { return entries_; }

    /// Whether as many groups have an id as may.
    [[nodiscard]] bool is_full() const noexcept { return in_use_ >= limits_.capacity; }
    [[nodiscard]] bool is_off() const noexcept { return limits_.capacity == 0; }

    /// kNoId where all are in quarantine.
    [[nodiscard]] CacheId take() {
        CacheId id = kNoId;
        if (!retired_.empty() && entries_ - retired_.front().since >= limits_.quarantine) {
            id = retired_.front().id;
            retired_.pop_front();
        } else if (unused_ < limits_.ids) {
            id = unused_++;
        }
        in_use_ += id == kNoId ? 0 : 1;
        return id;
    }

    void retire(CacheId id) {
        --in_use_;
        retired_.push_back({id, entries_});
    }

private:
    struct Retired {
        CacheId id;
        std::uint64_t since;  // entries when it was retired
    };

    CacheLimits limits_;
    std::size_t in_use_ = 0;
    std::deque<Retired> retired_;
    CacheId unused_ = 0;  // ids from here on were never given
    std::uint64_t entries_ = 0;
};

}  // namespace hvd::rt
