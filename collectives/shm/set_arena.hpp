// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/process_set.hpp"
#include "collectives/shm/arena.hpp"
#include "collectives/shm/host_memory.hpp"
#include "collectives/shm/set_memory.hpp"

#include <memory>
#include <optional>

namespace hvd::coll::shm {

/// The arena of ranks of one host: there from the beginning for the whole group, else found when it
/// is first needed.
///
/// Thread: progress lock.
class SetArena {
public:
    /// Of the group. The memory outlives the arena.
    explicit SetArena(HostMemory& memory);
    /// Of a set of ranks of this host.
    SetArena(HostMemory& memory, ProcessSet set);
    ~SetArena();
    SetArena(const SetArena&) = delete;
    SetArena& operator=(const SetArena&) = delete;

    /// Whether the arena is there; to be asked again where it is not. Throws Exception: with the
    /// cause of an abort, or where memory cannot be had.
    [[nodiscard]] bool find();

    /// Once `find` has said that it is there.
    [[nodiscard]] Arena& get() noexcept { return *arena_; }
    [[nodiscard]] HostMemory& memory() noexcept { return memory_; }

    /// Fails what runs and everything later.
    void abort(const Error& cause);

    /// `work`, which goes through the large slots: their pages stay until it has ended.
    [[nodiscard]] std::unique_ptr<Work> keep_pages(std::unique_ptr<Work> work);

    /// Gives the pages of the own large slots back. False while somebody may still read them.
    [[nodiscard]] bool cool() noexcept;

private:
    class LongWork;

    HostMemory& memory_;
    ProcessSet set_;
    std::optional<SetAreas> areas_;  // of a set
    std::optional<Arena> arena_;
    std::optional<Error> cause_;
    int long_works_ = 0;  // under way, of a set
};

}  // namespace hvd::coll::shm
