// SPDX-License-Identifier: Apache-2.0
//
// Reducescatter in chunks. A chunk has a piece of every member's part, so that all members reduce
// at the same time. For each chunk a member
//   fills    its slot with its input of the others' pieces, and says so;
//   reduces  its own piece once all have filled: it reads it from the slots of the others and from
//            its own input, in the order of the places, writes the result, and says so.
// A slot is filled again when all have reduced its last chunk. It is the swap slots that are used,
// with the sequence of the swap: a member is done when nobody reads its slots any more, which is
// how SwapWork expects them.
#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/reduce/reducer.hpp"
#include "collectives/shm/works.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace hvd::coll::shm {
namespace {

class ReducescatterWork final : public Work {
public:
    ReducescatterWork(Arena& arena, const Task& task)
        : arena_(arena),
          reducer_(task, arena.size()),
          element_bytes_(size_of(task.type)),
          lists_(task, arena.place(), arena.size()),
          piece_bytes_(kChunkBytes / static_cast<std::size_t>(arena.size()) / kLineBytes *
                       kLineBytes),
          base_(arena.sequences.swap) {
        if (piece_bytes_ == 0) {
            piece_bytes_ = element_bytes_;
        }
        chunks_ = (lists_.longest() + piece_bytes_ - 1) / piece_bytes_;
        arena.sequences.swap += chunks_;
    }

    [[nodiscard]] Result<Progress> poll() override {
        if (arena_.cause) {
            return Error(*arena_.cause);
        }
        arena_.take_steps([this] { return step(); });
        arena_.notify_if_owed();
        return reduced_ == chunks_ && have_all_reduced(chunks_) ? Progress::done
                                                                : Progress::pending;
    }

    [[nodiscard]] std::vector<int> missing() const override {
        return arena_.behind(base_ + 1,
                             [](RankArea& area) -> const Flag& { return area.swap_filled; });
    }

private:
    /// Does the most useful thing that can be done now. False: nothing can.
    bool step() {
        const bool owed = arena_.owes_notify();
        if (filled_ < chunks_ && filled_ <= reduced_ + 1 &&
            (filled_ < kChunkSlots || have_all_reduced(filled_ - kChunkSlots + 1))) {
            fill();
        } else if (reduced_ < filled_ &&
                   arena_.have_all(base_ + reduced_ + 1, [](RankArea& area) -> const Flag& {
                       return area.swap_filled;
                   })) {
            reduce();
        } else {
            return false;
        }
        if (owed) {
            arena_.notify_if_owed();
        }
        return true;
    }

    [[nodiscard]] bool have_all_reduced(std::size_t chunks) const noexcept {
        return arena_.have_all(base_ + chunks,
                               [](RankArea& area) -> const Flag& { return area.swap_reduced; });
    }

    /// Of a part that has so many bytes, what is in the chunk.
    [[nodiscard]] Range piece(std::size_t chunk, std::size_t bytes) const noexcept {
        return {std::min(chunk * piece_bytes_, bytes), std::min((chunk + 1) * piece_bytes_, bytes)};
    }

    /// Where the chunk's piece for a place lies in a member's slot.
    [[nodiscard]] std::byte* slot(int member, std::size_t chunk, int place) const noexcept {
        return arena_.area(member).swap[(base_ + chunk) % kChunkSlots].data() +
               static_cast<std::size_t>(place) * piece_bytes_;
    }

    void fill() {
        for (int step = 1; step < arena_.size(); ++step) {
            const int peer = (arena_.place() + step) % arena_.size();
            const auto& part = lists_.to(peer);
            const auto range = piece(filled_, part.bytes());
            auto* const to = slot(arena_.place(), filled_, peer);
            part.for_each(range.begin, range.end,
                          [&](const std::byte* memory, std::size_t bytes, std::size_t offset) {
                              std::memcpy(to + offset, memory, bytes);
                          });
        }
        ++filled_;
        arena_.raise(arena_.own().swap_filled, base_ + filled_);
    }

    void reduce() {
        lists_.own().for_each(
            piece(reduced_, lists_.own().bytes()),
            [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t offset) {
                for (int member = 0; member < arena_.size(); ++member) {
                    arena_.addresses[static_cast<std::size_t>(member)] =
                        member == arena_.place() ? from
                                                 : slot(member, reduced_, arena_.place()) + offset;
                }
                reducer_.run(arena_.addresses, {&to, 1}, bytes / element_bytes_);
            });
        ++reduced_;
        arena_.raise(arena_.own().swap_reduced, base_ + reduced_);
    }

    Arena& arena_;
    Reducer reducer_;
    std::size_t element_bytes_;
    PartLists lists_;
    std::size_t piece_bytes_;
    std::size_t chunks_ = 0;
    std::uint64_t base_;  // sequence number before the first chunk

    // Chunks that this member has done with.
    std::size_t filled_ = 0;
    std::size_t reduced_ = 0;
};

}  // namespace

std::unique_ptr<Work> start_reducescatter(Arena& arena, const Task& task) {
    return std::make_unique<ReducescatterWork>(arena, task);
}

}  // namespace hvd::coll::shm
