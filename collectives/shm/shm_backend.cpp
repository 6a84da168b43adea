// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/assert.hpp"
#include "collectives/host_backend.hpp"
#include "collectives/shm/factory.hpp"
#include "collectives/shm/host_memory.hpp"
#include "collectives/shm/shm_communicator.hpp"

#include <utility>

namespace hvd::coll::shm {
namespace {

constexpr int kScore = 100;
constexpr std::size_t kFusionBytes = std::size_t{1} << 20;

class ShmBackend final : public HostBackend {
public:
    explicit ShmBackend(std::shared_ptr<HostMemory> memory)
        : HostBackend({.name = "shm", .score = kScore, .fusion_bytes = kFusionBytes}),
          memory_(std::move(memory)) {}

    [[nodiscard]] bool is_like_local_result() const noexcept override { return true; }

    [[nodiscard]] std::unique_ptr<Communicator> open(const ProcessSet& set,
                                                     Device /*device*/) override {
        return set.id == 0 ? std::make_unique<ShmCommunicator>(*this, *memory_)
                           : std::make_unique<ShmCommunicator>(*this, *memory_, set);
    }

private:
    [[nodiscard]] bool serves(const Task&, const ProcessSet& set) const noexcept override {
        return set.size() > 1 && set.is_on_one_host();
    }

    std::shared_ptr<HostMemory> memory_;
};

}  // namespace

std::size_t segment_bytes(int local_size) {
    return sizeof(RankArea) * static_cast<std::size_t>(local_size) + SetMemory::directory_bytes();
}

std::shared_ptr<HostMemory> share(LocalGroup& group, std::size_t segment, std::vector<int> ranks) {
    HVD_ASSERT(group.segment(segment).size() >= segment_bytes(group.size()),
               "the segment is as large as segment_bytes said");
    return std::make_shared<HostMemory>(group, segment, std::move(ranks));
}

std::unique_ptr<Backend> create(std::shared_ptr<HostMemory> memory) {
    return std::make_unique<ShmBackend>(std::move(memory));
}

}  // namespace hvd::coll::shm
