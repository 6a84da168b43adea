// SPDX-License-Identifier: Apache-2.0
#include "collectives/done_work.hpp"
#include "collectives/host_backend.hpp"
#include "collectives/shm/arena.hpp"
#include "collectives/shm/factory.hpp"
#include "collectives/shm/works.hpp"

#include <algorithm>

namespace hvd::coll::shm {
namespace {

constexpr int kScore = 100;
constexpr std::size_t kFusionBytes = std::size_t{1} << 20;

/// Of any rank: the same number on all ranks, which decides how they work together.
[[nodiscard]] std::size_t largest_input(const Task& task, int ranks) {
    if (task.op != Op::allgather) {
        return input_bytes(task);
    }
    std::size_t largest = 0;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
        std::size_t elements = 0;
        for (const auto& segment : task.segments) {
            elements += segment.counts[rank];
        }
        largest = std::max(largest, elements);
    }
    return largest * size_of(task.type);
}

class ShmCommunicator final : public HostCommunicator {
public:
    ShmCommunicator(const Backend& backend, LocalGroup& group, std::size_t segment)
        : HostCommunicator(backend), arena_(group, segment) {}

private:
    std::unique_ptr<Work> do_start(const Task& task) override {
        const std::size_t bytes = largest_input(task, arena_.size());
        if (bytes == 0 && task.op != Op::barrier) {
            return std::make_unique<DoneWork>();
        }
        if (bytes <= kSmallBytes) {
            return start_exchange(arena_, task, bytes);
        }
        if (task.op == Op::allreduce) {
            return start_swap(arena_, task);
        }
        return start_gather(arena_, task, bytes);
    }

    void do_abort(const Error& cause) override { arena_.cause = cause; }

    Arena arena_;
};

class ShmBackend final : public HostBackend {
public:
    ShmBackend(LocalGroup& group, std::size_t segment)
        : HostBackend({.name = "shm", .score = kScore, .fusion_bytes = kFusionBytes}),
          group_(group),
          segment_(segment) {}

    [[nodiscard]] std::unique_ptr<Communicator> open(const ProcessSet&) override {
        return std::make_unique<ShmCommunicator>(*this, group_, segment_);
    }

private:
    [[nodiscard]] bool serves(const ProcessSet& set) const noexcept override {
        return set.id == 0 && set.is_on_one_host();
    }

    LocalGroup& group_;
    std::size_t segment_;
};

}  // namespace

std::size_t segment_bytes(int local_size) {
    return sizeof(RankArea) * static_cast<std::size_t>(local_size);
}

std::unique_ptr<Backend> create(LocalGroup& group, std::size_t segment) {
    return std::make_unique<ShmBackend>(group, segment);
}

}  // namespace hvd::coll::shm
