// SPDX-License-Identifier: Apache-2.0
//
// Collectives that only move bytes: what a rank puts in is one list of bytes, which goes in
// rounds.
#include "collectives/algorithms/scatter_list.hpp"
#include "collectives/mpi/works.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace hvd::coll::mpi {
namespace {

void copy_in(const InList& from, std::size_t begin, std::size_t end, std::byte* to) {
    from.for_each(begin, end, [&](const std::byte* memory, std::size_t bytes, std::size_t offset) {
        std::memcpy(to + offset, memory, bytes);
    });
}

void copy_out(const std::byte* from, const OutList& to, std::size_t begin, std::size_t end) {
    to.for_each(begin, end, [&](std::byte* memory, std::size_t bytes, std::size_t offset) {
        std::memcpy(memory, from + offset, bytes);
    });
}

class AllgatherWork final : public SteppedWork {
public:
    AllgatherWork(State& the_state, const Task& task) : SteppedWork(the_state), outs_(ranks()) {
        const auto element_bytes = size_of(task.type);
        for (const auto& segment : task.segments) {
            in_.append(segment.in, segment.count * element_bytes);
            std::byte* to = segment.out;
            for (std::size_t peer = 0; peer < ranks(); ++peer) {
                const auto bytes = segment.counts[peer] * element_bytes;
                outs_[peer].append(to, bytes);
                to += bytes;
            }
        }
        for (const auto& out : outs_) {
            longest_ = std::max(longest_, out.bytes());
        }
        part_bytes_ = std::max(kRoundBytes / ranks(), kLeastPart);
    }

private:
    [[nodiscard]] Result<bool> advance() override {
        if (is_begun_) {
            for (std::size_t peer = 0; peer < ranks(); ++peer) {
                copy_out(staging_ + offsets_[peer], outs_[peer], begin_of(peer), end_of(peer));
            }
            done_ += part_bytes_;
        }
        if (done_ >= longest_) {
            return false;
        }
        is_begun_ = true;
        Layout layout;
        for (std::size_t peer = 0; peer < ranks(); ++peer) {
            layout.append(end_of(peer) - begin_of(peer));
        }
        offsets_ = layout.offsets;
        staging_ = state().first.need(layout.bytes());
        copy_in(in_, begin_of(rank()), end_of(rank()), staging_ + offsets_[rank()]);
        HVD_TRY_STATUS(communicator().allgather(staging_, std::move(layout)));
        return true;
    }

    /// Where this round's part of a rank's bytes begins and ends.
    [[nodiscard]] std::size_t begin_of(std::size_t peer) const noexcept {
        return std::min(done_, outs_[peer].bytes());
    }
    [[nodiscard]] std::size_t end_of(std::size_t peer) const noexcept {
        return std::min(done_ + part_bytes_, outs_[peer].bytes());
    }

    InList in_;
    std::vector<OutList> outs_;  // where each rank's bytes go
    std::size_t longest_ = 0;
    std::size_t part_bytes_ = 0;
    std::vector<int> offsets_;  // of the parts in the staging buffer
    std::byte* staging_ = nullptr;
    std::size_t done_ = 0;
    bool is_begun_ = false;
};

class BroadcastWork final : public SteppedWork {
public:
    BroadcastWork(State& the_state, const Task& task)
        : SteppedWork(the_state), root_(task.root), is_root_(communicator().rank() == task.root) {
        for (const auto& segment : task.segments) {
            const auto bytes = segment.count * size_of(task.type);
            if (is_root_ && bytes != 0 && segment.in != segment.out) {
                std::memmove(segment.out, segment.in, bytes);
            }
            in_.append(is_root_ ? segment.in : segment.out, bytes);
            out_.append(segment.out, bytes);
        }
    }

private:
    [[nodiscard]] Result<bool> advance() override {
        if (is_begun_) {
            if (!is_root_) {
                copy_out(staging_, out_, done_, end());
            }
            done_ = end();
        }
        if (done_ == out_.bytes()) {
            return false;
        }
        is_begun_ = true;
        const auto bytes = end() - done_;
        staging_ = state().first.need(bytes);
        if (is_root_) {
            copy_in(in_, done_, end(), staging_);
        }
        HVD_TRY_STATUS(communicator().broadcast({staging_, bytes}, root_));
        return true;
    }

    [[nodiscard]] std::size_t end() const noexcept {
        return std::min(done_ + kRoundBytes, out_.bytes());
    }

    int root_;
    bool is_root_;
    InList in_;
    OutList out_;
    std::byte* staging_ = nullptr;
    std::size_t done_ = 0;
    bool is_begun_ = false;
};

class BarrierWork final : public SteppedWork {
public:
    explicit BarrierWork(State& the_state) : SteppedWork(the_state) {}

private:
    [[nodiscard]] Result<bool> advance() override {
        if (is_begun_) {
            return false;
        }
        is_begun_ = true;
        HVD_TRY_STATUS(communicator().barrier());
        return true;
    }

    bool is_begun_ = false;
};

}  // namespace

std::unique_ptr<Work> start_allgather(State& state, const Task& task) {
    return std::make_unique<AllgatherWork>(state, task);
}

std::unique_ptr<Work> start_broadcast(State& state, const Task& task) {
    return std::make_unique<BroadcastWork>(state, task);
}

std::unique_ptr<Work> start_barrier(State& state) {
    return std::make_unique<BarrierWork>(state);
}

}  // namespace hvd::coll::mpi
