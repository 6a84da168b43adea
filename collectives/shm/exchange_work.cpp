// SPDX-License-Identifier: Apache-2.0
//
// Each rank writes its input where all can read it and raises one flag. A rank that has seen all
// flags does the whole operation by itself. Two slots in turn are enough: a rank that raises a flag
// for operation q + 1 has finished reading q, and no rank starts q + 2 before it has seen all flags
// of q + 1.
#include "collectives/reduce/local_result.hpp"
#include "collectives/shm/works.hpp"
#include "collectives/transport/shm/cache_lines.hpp"

#include <cstring>
#include <vector>

namespace hvd::coll::shm {
namespace {

void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes != 0 && to != from) {
        std::memcpy(to, from, bytes);
    }
}

class ExchangeWork final : public Work {
public:
    ExchangeWork(Arena& arena, const Task& task, std::size_t bytes)
        : arena_(arena),
          task_(task),
          bytes_(bytes),
          is_tiny_(bytes <= kTinyBytes),
          result_(task, arena.size()) {
        auto& own = arena.own();
        if (is_tiny_) {
            tiny_ = ++arena.sequences.tiny;
            auto& line = own.tiny[tiny_ % 2];
            pack(line.payload.data());
            arena.raise(line, tiny_);
        } else {
            small_ = ++arena.sequences.small;
            pack(own.small[small_ % kSmallSlots].data());
            arena.raise(own.small_filled, small_);
        }
    }

    [[nodiscard]] Result<Progress> poll() override {
        if (arena_.cause) {
            return Error(*arena_.cause);
        }
        for (; arrived_ < arena_.size(); ++arrived_) {
            if (arrived_ != arena_.place() && !has_arrived(arrived_)) {
                arena_.notify_if_owed();
                return Progress::pending;
            }
        }
        finish();
        if (!is_tiny_) {
            // Off the critical path of the next operation.
            take_lines(arena_.own().small[(small_ + 1) % kSmallSlots].data(), bytes_);
        }
        arena_.notify_if_owed();
        return Progress::done;
    }

    [[nodiscard]] std::vector<int> missing() const override {
        std::vector<int> places;
        for (int place = arrived_; place < arena_.size(); ++place) {
            if (place != arena_.place() && !has_arrived(place)) {
                places.push_back(place);
            }
        }
        return places;
    }

private:
    [[nodiscard]] const std::byte* slot(int rank) const noexcept {
        const auto& area = arena_.area(rank);
        return is_tiny_ ? area.tiny[tiny_ % 2].payload.data()
                        : area.small[small_ % kSmallSlots].data();
    }

    [[nodiscard]] bool has_arrived(int rank) const noexcept {
        const auto& area = arena_.area(rank);
        return is_tiny_ ? area.tiny[tiny_ % 2].sequence.load(std::memory_order_acquire) == tiny_
                        : area.small_filled.value.load(std::memory_order_acquire) >= small_;
    }

    void pack(std::byte* to) const {
        if (task_.op == Op::broadcast && task_.root != arena_.place()) {
            return;
        }
        for (const auto& segment : task_.segments) {
            const std::size_t bytes = segment.count * size_of(task_.type);
            copy(to, segment.in, bytes);
            to += bytes;
        }
    }

    void finish() const {
        auto& inputs = arena_.addresses;
        for (int rank = 0; rank < arena_.size(); ++rank) {
            inputs[static_cast<std::size_t>(rank)] = slot(rank);
        }
        result_.write(task_, arena_.place(), inputs);
    }

    Arena& arena_;
    Task task_;
    std::size_t bytes_;
    bool is_tiny_;
    LocalResult result_;
    std::uint32_t tiny_ = 0;
    std::uint64_t small_ = 0;
    int arrived_ = 0;  // ranks below are known to have come
};

}  // namespace

std::unique_ptr<Work> start_exchange(Arena& arena, const Task& task, std::size_t bytes) {
    return std::make_unique<ExchangeWork>(arena, task, bytes);
}

}  // namespace hvd::coll::shm
