// SPDX-License-Identifier: Apache-2.0
//
// Allgather and broadcast in chunks: a rank copies the next chunk of its input into a slot and says
// so, everybody copies it out and says so, and a slot is filled again when all have. In a broadcast
// only the root has an input.
#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/shm/works.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace hvd::coll::shm {
namespace {

class GatherWork final : public Work {
public:
    GatherWork(Arena& arena, const Task& task, std::size_t bytes)
        : arena_(arena),
          chunks_((bytes + kChunkBytes - 1) / kChunkBytes),
          base_(arena.sequences.gather) {
        outputs_.resize(static_cast<std::size_t>(arena.size()));
        const std::size_t element_bytes = size_of(task.type);
        for (const auto& segment : task.segments) {
            if (task.op == Op::broadcast) {
                append_broadcast(segment, task.root, segment.count * element_bytes);
            } else {
                append_allgather(segment, element_bytes);
            }
        }
        arena.sequences.gather += chunks_;
    }

    [[nodiscard]] Result<Progress> poll() override {
        if (arena_.cause) {
            return Error(*arena_.cause);
        }
        arena_.take_steps([this] { return step(); });
        arena_.notify_if_owed();
        return drained_ == chunks_ ? Progress::done : Progress::pending;
    }

    [[nodiscard]] std::vector<int> missing() const override {
        return arena_.missing_in_gather(base_);
    }

private:
    void append_broadcast(const Segment& segment, int root, std::size_t bytes) {
        if (root == arena_.place()) {
            input_.append(segment.in, bytes);
        }
        outputs_[static_cast<std::size_t>(root)].append(segment.out, bytes);
    }

    void append_allgather(const Segment& segment, std::size_t element_bytes) {
        input_.append(segment.in, segment.count * element_bytes);
        auto* out = segment.out;
        for (std::size_t rank = 0; rank < outputs_.size(); ++rank) {
            const std::size_t bytes = segment.counts[rank] * element_bytes;
            outputs_[rank].append(out, bytes);
            out += bytes;
        }
    }

    /// Does the most useful thing that can be done now. False: nothing can.
    bool step() {
        const bool owed = arena_.owes_notify();
        if (filled_ < chunks_ && filled_ <= drained_ + 1 && can_fill()) {
            fill();
        } else if (drained_ < filled_ && can_drain()) {
            drain();
        } else {
            return false;
        }
        if (owed) {
            arena_.notify_if_owed();
        }
        return true;
    }

    [[nodiscard]] std::size_t slot_of(std::size_t index) const noexcept {
        return (base_ + index) % kChunkSlots;
    }

    /// The slot's last content, of this operation or an earlier one, was drained by all.
    [[nodiscard]] bool can_fill() const noexcept {
        const std::uint64_t next = base_ + filled_ + 1;
        return next <= kChunkSlots ||
               arena_.have_all(next - kChunkSlots,
                               [](RankArea& area) -> const Flag& { return area.gather_drained; });
    }

    void fill() {
        const std::size_t begin = filled_ * kChunkBytes;
        const std::size_t end = std::min(begin + kChunkBytes, input_.bytes());
        auto* const to = arena_.own().gather[slot_of(filled_)].data();
        input_.for_each(begin, end,
                        [&](const std::byte* memory, std::size_t bytes, std::size_t offset) {
                            std::memcpy(to + offset, memory, bytes);
                        });
        ++filled_;
        arena_.raise(arena_.own().gather_filled, base_ + filled_);
    }

    /// Whether every rank that has a part of this chunk has filled it.
    [[nodiscard]] bool can_drain() const noexcept {
        for (int rank = 0; rank < arena_.size(); ++rank) {
            const auto& output = outputs_[static_cast<std::size_t>(rank)];
            if (rank != arena_.place() && drained_ * kChunkBytes < output.bytes() &&
                arena_.area(rank).gather_filled.value.load(std::memory_order_acquire) <
                    base_ + drained_ + 1) {
                return false;
            }
        }
        return true;
    }

    void drain() {
        const std::size_t begin = drained_ * kChunkBytes;
        for (int rank = 0; rank < arena_.size(); ++rank) {
            const auto& output = outputs_[static_cast<std::size_t>(rank)];
            const std::size_t end = std::min(begin + kChunkBytes, output.bytes());
            const auto* const from = arena_.area(rank).gather[slot_of(drained_)].data();
            output.for_each(begin, end,
                            [&](std::byte* memory, std::size_t bytes, std::size_t offset) {
                                std::memcpy(memory, from + offset, bytes);
                            });
        }
        ++drained_;
        arena_.raise(arena_.own().gather_drained, base_ + drained_);
    }

    Arena& arena_;
    InList input_;
    std::vector<OutList> outputs_;  // where each rank's input goes
    std::size_t chunks_;            // of the largest input
    std::uint64_t base_;            // sequence number before the first chunk

    // Chunks that this rank has done with.
    std::size_t filled_ = 0;
    std::size_t drained_ = 0;
};

}  // namespace

std::unique_ptr<Work> start_gather(Arena& arena, const Task& task, std::size_t bytes) {
    return std::make_unique<GatherWork>(arena, task, bytes);
}

}  // namespace hvd::coll::shm
