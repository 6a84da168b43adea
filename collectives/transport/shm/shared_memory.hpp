// SPDX-License-Identifier: Apache-2.0
//
// The memory that a local group shares: a header with the ranks' sleeping bits, then the segments,
// each on its own pages.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/types.h>

namespace hvd::coll {

/// Which ranks sleep: bit r % 64 of word r / 64. Packed, so that one load tells that nobody does.
using SleeperWord = std::atomic<std::uint64_t>;
static_assert(SleeperWord::is_always_lock_free, "it is shared between processes");

/// A mapping of the group's memory. Not inherited by children (MADV_DONTFORK), and its destructor
/// does nothing in one.
class SharedMemory {
public:
    /// A memfd for `size` ranks that can grow, but cannot shrink under its users. Pages come when
    /// first touched.
    /// Errors: unavailable.
    [[nodiscard]] static Result<UniqueFd> create(int size, std::span<const std::size_t> segments);

    /// Maps what `create` made with the same arguments; refuses what is smaller.
    [[nodiscard]] static Result<SharedMemory> map(int fd,
                                                  int size,
                                                  std::span<const std::size_t> segments);

    SharedMemory(SharedMemory&& other) noexcept;
    SharedMemory& operator=(SharedMemory&& other) = delete;
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    ~SharedMemory();

    [[nodiscard]] std::span<SleeperWord> sleepers() const noexcept { return sleepers_; }
    [[nodiscard]] std::span<std::byte> segment(std::size_t index) const noexcept;

    /// The memfd, and how many bytes of it the segments take: what follows them is free for whoever
    /// makes the file longer.
    [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
    SharedMemory() = default;

    UniqueFd fd_;
    std::byte* base_ = nullptr;
    std::size_t bytes_ = 0;
    pid_t owner_ = 0;
    std::span<SleeperWord> sleepers_;
    std::vector<std::span<std::byte>> segments_;
};

}  // namespace hvd::coll
