// SPDX-License-Identifier: Apache-2.0
//
// Memory for the arenas of process sets. It lies in the file of the group's memory, behind the
// segments, and takes no descriptor: entry number e of a directory that all ranks share stands for
// a range of the file at e times the size of the largest arena. The file is sparse, so that a range
// costs what is touched of it. The first member of a set that comes takes an entry, the others find
// it by the set's id and incarnation, and when all have left, the range is given back, as zeros.
#pragma once

#include "collectives/process_set.hpp"
#include "collectives/shm/arena.hpp"
#include "collectives/transport/shm/local_group.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <sys/types.h>

namespace hvd::coll::shm {

/// How many sets of the ranks of one host may be open at a time.
inline constexpr std::size_t kMostSets = 65'536;

/// In shared memory. Zeros are a valid one.
struct Directory {
    struct Entry {
        std::int32_t id;
        std::uint32_t incarnation;
        std::uint32_t members;  // 0: free
        std::uint32_t left;     // members that have come and gone
    };

    /// Taken for some microseconds at a time, so that nobody waits for it with the progress lock.
    enum Lock : std::uint32_t { unlocked, locked, waited_for };

    std::atomic<std::uint32_t> lock;
    std::uint32_t used;  // entries from here on have never been taken
    std::array<Entry, kMostSets> entries;
};

class SetMemory;

/// One member's mapping of its set's areas. Move-only. Not inherited by children (MADV_DONTFORK),
/// and its destructor does nothing in one.
class SetAreas {
public:
    SetAreas(SetAreas&& other) noexcept;
    SetAreas& operator=(SetAreas&&) = delete;
    SetAreas(const SetAreas&) = delete;
    SetAreas& operator=(const SetAreas&) = delete;
    /// Waits for the directory for at most a second: longer only where its holder has died.
    ~SetAreas();

    [[nodiscard]] std::span<RankArea> areas() const noexcept { return areas_; }

private:
    friend class SetMemory;
    SetAreas(SetMemory& memory, std::size_t entry, std::span<RankArea> areas) noexcept;

    SetMemory* memory_;
    std::size_t entry_;
    std::span<RankArea> areas_;
    pid_t owner_;
};

/// Thread: progress lock.
class SetMemory {
public:
    /// Bytes of shared memory for the directory.
    [[nodiscard]] static constexpr std::size_t directory_bytes() noexcept {
        return sizeof(Directory);
    }

    /// `directory` is the same memory on all ranks of the group. Both outlive it.
    SetMemory(LocalGroup& group, std::span<std::byte> directory) noexcept;

    /// Maps the areas of a set that this rank is a member of. Nothing while another rank has the
    /// directory, which notifies this rank when it gives it back. Never blocks. Throws Exception
    /// when memory cannot be had.
    [[nodiscard]] std::optional<SetAreas> find(const ProcessSet& set);

private:
    friend class SetAreas;
    [[nodiscard]] bool try_lock() noexcept;
    void unlock() noexcept;
    [[nodiscard]] std::size_t entry_of(const ProcessSet& set);
    [[nodiscard]] std::size_t offset_of(std::size_t entry) const noexcept;
    [[nodiscard]] std::span<RankArea> map(std::size_t entry, std::size_t members) const;
    void leave(std::size_t entry) noexcept;

    LocalGroup& group_;
    Directory& directory_;
    std::size_t stride_;  // from one set's areas to the next
};

}  // namespace hvd::coll::shm
