// SPDX-License-Identifier: Apache-2.0
#include "collectives/shm/set_memory.hpp"

#include "collectives/base/deadline.hpp"
#include "collectives/base/error.hpp"

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::coll::shm {
namespace {

[[noreturn]] void no_memory(std::string_view step, std::size_t bytes) {
    auto error = system_error("shared memory of " + std::to_string(bytes) +
                                  " bytes for a process set: " + std::string(step),
                              errno);
    error.code = Errc::unavailable;
    error.message += "; see `ulimit -v` and `ulimit -f`";
    throw Exception(std::move(error));
}

}  // namespace

SetAreas::SetAreas(SetMemory& memory, std::size_t entry, std::span<RankArea> areas) noexcept
    : memory_(&memory), entry_(entry), areas_(areas), owner_(::getpid()) {}

SetAreas::SetAreas(SetAreas&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      entry_(other.entry_),
      areas_(other.areas_),
      owner_(other.owner_) {}

SetAreas::~SetAreas() {
    if (memory_ == nullptr || owner_ != ::getpid()) {
        return;
    }
    (void)::munmap(areas_.data(), areas_.size_bytes());
    memory_->leave(entry_);
}

SetMemory::SetMemory(LocalGroup& group, std::span<std::byte> directory) noexcept
    : group_(group),
      directory_(*reinterpret_cast<Directory*>(directory.data())),
      stride_(sizeof(RankArea) * static_cast<std::size_t>(group.size())) {}

std::optional<SetAreas> SetMemory::find(const ProcessSet& set) {
    if (!try_lock()) {
        return std::nullopt;
    }
    const auto give_back = [](SetMemory* memory) { memory->unlock(); };
    const std::unique_ptr<SetMemory, decltype(give_back)> locked(this, give_back);
    const auto entry = entry_of(set);
    return SetAreas(*this, entry, map(entry, static_cast<std::size_t>(set.size())));
}

bool SetMemory::try_lock() noexcept {
    std::uint32_t state = Directory::unlocked;
    if (directory_.lock.compare_exchange_strong(state, Directory::locked,
                                                std::memory_order_acquire)) {
        return true;
    }
    // The holder then notifies all, this rank among them; if it has just gone, this rank takes the
    // lock instead.
    state = Directory::locked;
    if (directory_.lock.compare_exchange_strong(state, Directory::waited_for,
                                                std::memory_order_relaxed) ||
        state == Directory::waited_for) {
        return false;
    }
    return try_lock();
}

void SetMemory::unlock() noexcept {
    if (directory_.lock.exchange(Directory::unlocked, std::memory_order_release) ==
        Directory::waited_for) {
        group_.notify_others();
    }
}

/// The set's entry, taken if no member has come yet. The directory is locked.
std::size_t SetMemory::entry_of(const ProcessSet& set) {
    std::size_t free = directory_.used;
    for (std::size_t index = 0; index < directory_.used; ++index) {
        const auto& entry = directory_.entries[index];
        if (entry.members == 0) {
            free = std::min(free, index);
        } else if (entry.id == set.id && entry.incarnation == set.incarnation) {
            return index;
        }
    }
    if (free == kMostSets) {
        throw Exception(
            Error{Errc::unsupported, "more than " + std::to_string(kMostSets) +
                                         " process sets of this host are in use at the same time"});
    }
    directory_.entries[free] = {.id = set.id,
                                .incarnation = set.incarnation,
                                .members = static_cast<std::uint32_t>(set.size()),
                                .left = 0};
    directory_.used = std::max(directory_.used, static_cast<std::uint32_t>(free) + 1);
    return free;
}

std::size_t SetMemory::offset_of(std::size_t entry) const noexcept {
    return group_.memory_bytes() + entry * stride_;
}

/// The directory is locked, so that one rank at a time makes the file longer.
std::span<RankArea> SetMemory::map(std::size_t entry, std::size_t members) const {
    const int fd = group_.memory_descriptor();
    const auto offset = static_cast<off_t>(offset_of(entry));
    const auto bytes = sizeof(RankArea) * members;
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        no_memory("fstat", bytes);
    }
    const auto end = offset + static_cast<off_t>(bytes);
    if (status.st_size < end && ::ftruncate(fd, end) != 0) {
        no_memory("ftruncate", bytes);
    }
    void* const base =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, offset);
    if (base == MAP_FAILED) {
        no_memory("mmap", bytes);
    }
    if (::madvise(base, bytes, MADV_DONTFORK) != 0) {
        (void)::munmap(base, bytes);
        no_memory("MADV_DONTFORK", bytes);
    }
    return {static_cast<RankArea*>(base), members};
}

void SetMemory::leave(std::size_t entry) noexcept {
    const auto limit = Deadline::in(std::chrono::seconds(1));
    while (!try_lock()) {
        if (limit.has_passed()) {
            return;  // what is lost is given back with the group's memory
        }
        (void)::sched_yield();
    }
    auto& left = directory_.entries[entry];
    if (++left.left == left.members) {
        // Zeros again, for the next set. Where the kernel cannot do that, the entry stays taken.
        const auto bytes = sizeof(RankArea) * left.members;
        if (::fallocate(group_.memory_descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(offset_of(entry)), static_cast<off_t>(bytes)) == 0) {
            left.members = 0;
        }
    }
    unlock();
}

}  // namespace hvd::coll::shm
