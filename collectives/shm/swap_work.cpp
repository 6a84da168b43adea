// SPDX-License-Identifier: Apache-2.0
//
// Allreduce in chunks. Each rank owns a slice of every chunk. For each chunk a rank
//   fills    its slot with its input, but for its own slice, and says so;
//   reduces  its slice once all have filled: it reads it from the slots of the others and from its
//            own input, in rank order, writes the result to its output and back into the slots it
//            read, and says so;
//   drains   the other slices, reduced by now, from its own slot into its output.
// So a cache line of a slot changes hands twice, where copying in, reducing and copying out from
// slots of the owner would move it three times. A rank's slot is touched by others only between
// "filled" and "reduced", so when the last chunk is drained all its slots are its own again.
// Up to three chunks are under way, one in each step.
#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/reduce/reducer.hpp"
#include "collectives/shm/works.hpp"
#include "collectives/transport/shm/cache_lines.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace hvd::coll::shm {
namespace {

[[nodiscard]] constexpr std::size_t divide_up(std::size_t value, std::size_t by) noexcept {
    return (value + by - 1) / by;
}

/// The size, in whole lines, that cuts `bytes` into as few chunks as can be, all but equal.
[[nodiscard]] constexpr std::size_t equal_chunk(std::size_t bytes) noexcept {
    const std::size_t chunks = divide_up(bytes, kChunkBytes);
    return divide_up(divide_up(bytes, chunks), kLineBytes) * kLineBytes;
}

class SwapWork final : public Work {
public:
    SwapWork(Arena& arena, const Task& task)
        : arena_(arena),
          reducer_(task, arena.size()),
          element_bytes_(size_of(task.type)),
          lists_(task),
          chunk_bytes_(equal_chunk(input_bytes(task))),
          chunks_(divide_up(input_bytes(task), chunk_bytes_)),
          base_(arena.sequences.swap) {
        arena.sequences.swap += chunks_;
        outputs_.resize(static_cast<std::size_t>(arena.size()));
        fill();
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
        return arena_.behind(base_ + 1,
                             [](RankArea& area) -> const Flag& { return area.swap_filled; });
    }

private:
    /// Does the most useful thing that can be done now. False: nothing can.
    bool step() {
        const bool owed = arena_.owes_notify();
        if (filled_ < chunks_ && filled_ < drained_ + kChunkSlots && filled_ <= reduced_ + 1) {
            fill();
        } else if (reduced_ < filled_ &&
                   arena_.have_all(base_ + reduced_ + 1, [](RankArea& area) -> const Flag& {
                       return area.swap_filled;
                   })) {
            reduce();
        } else if (drained_ < reduced_ &&
                   arena_.have_all(base_ + drained_ + 1, [](RankArea& area) -> const Flag& {
                       return area.swap_reduced;
                   })) {
            drain();
        } else {
            return false;
        }
        if (owed) {
            arena_.notify_if_owed();
        }
        return true;
    }

    [[nodiscard]] Range chunk(std::size_t index) const noexcept {
        const std::size_t begin = index * chunk_bytes_;
        return {begin, std::min(begin + chunk_bytes_, lists_.bytes())};
    }

    /// Whole lines, so that no line has two owners.
    [[nodiscard]] Range slice(Range chunk, int rank) const noexcept {
        const std::size_t lines = divide_up(chunk.end - chunk.begin, kLineBytes);
        const auto ranks = static_cast<std::size_t>(arena_.size());
        const auto at = static_cast<std::size_t>(rank);
        return {std::min(chunk.begin + lines * at / ranks * kLineBytes, chunk.end),
                std::min(chunk.begin + lines * (at + 1) / ranks * kLineBytes, chunk.end)};
    }

    [[nodiscard]] std::byte* slot(int rank, std::size_t index) const noexcept {
        return arena_.area(rank).swap[index % kChunkSlots].data();
    }

    void fill() {
        const auto whole = chunk(filled_);
        const auto own = slice(whole, arena_.place());
        auto* const to = slot(arena_.place(), filled_);
        const auto copy_in = [&](Range range) {
            auto* const start = to + (range.begin - whole.begin);
            lists_.in.for_each(range.begin, range.end,
                               [&](const std::byte* memory, std::size_t bytes, std::size_t offset) {
                                   std::memcpy(start + offset, memory, bytes);
                               });
        };
        copy_in({whole.begin, own.begin});
        copy_in({own.end, whole.end});
        ++filled_;
        arena_.raise(arena_.own().swap_filled, base_ + filled_);
    }

    void reduce() {
        const auto whole = chunk(reduced_);
        const auto own = slice(whole, arena_.place());
        lists_.for_each(
            own, [&](const std::byte* in, std::byte* out, std::size_t bytes, std::size_t offset) {
                reduce_piece(in, out, own.begin + offset - whole.begin, bytes);
            });
        ++reduced_;
        arena_.raise(arena_.own().swap_reduced, base_ + reduced_);
    }

    void reduce_piece(const std::byte* in, std::byte* out, std::size_t at, std::size_t bytes) {
        std::size_t taken = 0;
        for (int rank = 0; rank < arena_.size(); ++rank) {
            const auto index = static_cast<std::size_t>(rank);
            if (rank == arena_.place()) {
                arena_.addresses[index] = in;
            } else {
                arena_.addresses[index] = slot(rank, reduced_) + at;
                outputs_[taken++] = slot(rank, reduced_) + at;
            }
        }
        outputs_[taken] = out;
        reducer_.run(arena_.addresses, outputs_, bytes / element_bytes_, static_cast<int>(taken));
    }

    void drain() {
        const auto whole = chunk(drained_);
        const auto own = slice(whole, arena_.place());
        const auto* const from = slot(arena_.place(), drained_);
        const auto copy_out = [&](Range range) {
            const auto* const start = from + (range.begin - whole.begin);
            lists_.out.for_each(range.begin, range.end,
                                [&](std::byte* memory, std::size_t bytes, std::size_t offset) {
                                    copy_taking(memory, start + offset, bytes);
                                });
        };
        copy_out({whole.begin, own.begin});
        copy_out({own.end, whole.end});
        ++drained_;
    }

    Arena& arena_;
    Reducer reducer_;
    std::size_t element_bytes_;
    TaskLists lists_;
    std::size_t chunk_bytes_;
    std::size_t chunks_;
    std::uint64_t base_;  // sequence number before the first chunk

    // Chunks that this rank has done with, each at most the one above.
    std::size_t filled_ = 0;
    std::size_t reduced_ = 0;
    std::size_t drained_ = 0;

    std::vector<std::byte*> outputs_;  // for reduce_piece
};

}  // namespace

std::unique_ptr<Work> start_swap(Arena& arena, const Task& task) {
    return std::make_unique<SwapWork>(arena, task);
}

}  // namespace hvd::coll::shm
