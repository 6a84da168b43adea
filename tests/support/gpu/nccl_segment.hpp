// SPDX-License-Identifier: Apache-2.0
//
// The memory that the ranks of one communicator share.
#pragma once

#include "collectives/base/unique_fd.hpp"

#include <nccl.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace hvd::test::gpu {

inline constexpr int kMostRanks = 16;
inline constexpr std::size_t kChunk = std::size_t{256} << 10;     // of a collective, each rank's
inline constexpr std::size_t kPairChunk = std::size_t{64} << 10;  // of a message

/// One rank's area, written by it and read by the others. All zeros is valid.
struct RankArea {
    std::atomic<std::int32_t> pid;
    std::atomic<std::int32_t> device;
    std::atomic<std::int32_t> host;
    std::atomic<std::uint32_t> is_attached;
    std::atomic<std::uint32_t> is_connected;
    std::atomic<std::uint32_t> is_finalized;
    std::atomic<std::uint64_t> written;    // rounds whose input is in `chunk`
    std::atomic<std::uint64_t> consumed;   // rounds that it has read from all
    std::atomic<std::uint64_t> signature;  // of the collective that it is in
    alignas(64) std::array<std::byte, kChunk> chunk;
};

/// A message on its way from one rank to another.
struct PairArea {
    std::atomic<std::uint64_t> written;  // chunks
    std::atomic<std::uint64_t> read;
    std::uint64_t bytes;  // of the whole message
    alignas(64) std::array<std::byte, kPairChunk> chunk;
};

struct SharedArea {
    std::uint64_t nonce;
    std::atomic<std::int32_t> ranks;
    std::array<RankArea, kMostRanks> areas;
    std::array<std::array<PairArea, kMostRanks>, kMostRanks> pairs;  // by sender and receiver
};

/// Mapped into this process. The file has no name: an id says which process has it under which
/// number, so that nothing is left where a test is killed.
class Segment {
public:
    /// The id of a new one, which this process holds until `release_id`.
    [[nodiscard]] static std::optional<ncclUniqueId> make_id();
    static void release_id(const ncclUniqueId& id);
    /// Ids that were made here and not released.
    [[nodiscard]] static std::size_t held_ids();

    /// nullptr where the process that made the id is gone.
    [[nodiscard]] static std::unique_ptr<Segment> open(const ncclUniqueId& id);

    explicit Segment(SharedArea* area) noexcept : area_(area) {}
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;
    ~Segment();

    [[nodiscard]] SharedArea& operator*() const noexcept { return *area_; }
    [[nodiscard]] SharedArea* operator->() const noexcept { return area_; }

private:
    SharedArea* area_;
};

}  // namespace hvd::test::gpu
