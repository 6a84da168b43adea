// SPDX-License-Identifier: Apache-2.0
//
// In the place of the shipped header: the shared memory and the wake-up descriptors of ranks that
// are fibers. Sleeping and notifying follow the shipped local_group.cpp step by step.
#pragma once

#include "runtime/control/shared_atomic.hpp"
#include "tests/simulation/engine/system.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hvd::coll {

/// The state that the ranks of one host share.
struct SharedHost {
    SharedHost(int ranks, std::size_t bytes);

    struct Free {
        void operator()(std::byte* pages) const noexcept;
    };
    int size;
    std::size_t bytes;
    std::unique_ptr<std::byte, Free> memory;
    rt::SharedAtomic<std::uint64_t> asleep;  // a bit for each rank
    std::vector<int> wakeups;                // descriptors, by rank
    std::vector<int> pidfds;
};

class LocalGroup {
public:
    LocalGroup(int rank, SharedHost& host) noexcept : rank_(rank), host_(host) {}

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return host_.size; }
    // NOLINTNEXTLINE(readability-convert-member-functions-to-static): as the shipped class
    [[nodiscard]] int pid(int rank) const noexcept { return 1000 + rank; }
    [[nodiscard]] std::span<std::byte> segment(std::size_t /*index*/) const noexcept {
        return {host_.memory.get(), host_.bytes};
    }
    [[nodiscard]] int peer_pidfd(int rank) const noexcept {
        return host_.pidfds[static_cast<std::size_t>(rank)];
    }
    [[nodiscard]] int wakeup_descriptor() const noexcept {
        return host_.wakeups[static_cast<std::size_t>(rank_)];
    }
    void drain() const noexcept;
    void about_to_sleep() noexcept;
    void awake() noexcept;
    void notify(int rank) noexcept;
    void notify_others() noexcept;
    void notify_always(int rank) const noexcept;
    void notify_self() const noexcept { notify_always(rank_); }

private:
    int rank_;
    SharedHost& host_;
};

}  // namespace hvd::coll
