// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/assert.hpp"
#include "collectives/host_backend.hpp"
#include "collectives/shm/factory.hpp"
#include "collectives/shm/set_memory.hpp"
#include "collectives/shm/shm_communicator.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hvd::coll::shm {
namespace {

constexpr int kScore = 100;
constexpr std::size_t kFusionBytes = std::size_t{1} << 20;

[[nodiscard]] std::size_t world_bytes(int local_size) noexcept {
    return sizeof(RankArea) * static_cast<std::size_t>(local_size);
}

class ShmBackend final : public HostBackend {
public:
    ShmBackend(LocalGroup& group, std::span<std::byte> segment, std::vector<int> ranks)
        : HostBackend({.name = "shm", .score = kScore, .fusion_bytes = kFusionBytes}),
          ranks_(std::move(ranks)),
          world_(reinterpret_cast<RankArea*>(segment.data()),
                 static_cast<std::size_t>(group.size())),
          shared_(group, segment.subspan(world_bytes(group.size()))) {
        if (ranks_.empty()) {
            ranks_.resize(world_.size());
            std::iota(ranks_.begin(), ranks_.end(), 0);
        }
    }

    [[nodiscard]] bool is_like_local_result() const noexcept override { return true; }

    [[nodiscard]] std::unique_ptr<Communicator> open(const ProcessSet& set,
                                                     Device /*device*/) override {
        if (set.id == 0) {
            return std::make_unique<ShmCommunicator>(*this, shared_, world_);
        }
        std::vector<int> others;
        for (const int rank : set.ranks) {
            const auto at = std::ranges::find(ranks_, rank);
            HVD_ASSERT(at != ranks_.end(), "a set of ranks of this host");
            const auto local_rank = static_cast<int>(at - ranks_.begin());
            if (local_rank != shared_.group.rank()) {
                others.push_back(local_rank);
            }
        }
        return std::make_unique<ShmCommunicator>(*this, shared_, set, std::move(others));
    }

private:
    [[nodiscard]] bool serves(const Task&, const ProcessSet& set) const noexcept override {
        return set.size() > 1 && set.is_on_one_host();
    }

    std::vector<int> ranks_;  // of the world, by rank of the group
    std::span<RankArea> world_;
    Shared shared_;
};

}  // namespace

// The areas of the world come first, then the directory that all sets share. Zero pages are a valid
// state, so that any rank may be the first to use them.
std::size_t segment_bytes(int local_size) {
    return world_bytes(local_size) + SetMemory::directory_bytes();
}

std::unique_ptr<Backend> create(LocalGroup& group, std::size_t segment, std::vector<int> ranks) {
    const auto memory = group.segment(segment);
    HVD_ASSERT(memory.size() >= segment_bytes(group.size()),
               "the segment is as large as segment_bytes said");
    return std::make_unique<ShmBackend>(group, memory, std::move(ranks));
}

}  // namespace hvd::coll::shm
