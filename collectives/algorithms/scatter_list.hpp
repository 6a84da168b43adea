// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/types.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hvd::coll {

/// Bytes from `begin` to `end` of a list.
struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;

    [[nodiscard]] std::size_t size() const noexcept { return end - begin; }

    /// One of `count` slices of whole elements, all but equal.
    [[nodiscard]] Range slice(std::size_t index,
                              std::size_t count,
                              std::size_t element_bytes) const noexcept {
        const auto elements = size() / element_bytes;
        const auto at = [&](std::size_t number) {
            return begin + elements * number / count * element_bytes;
        };
        return {at(index), at(index + 1)};
    }
};

/// Pieces of memory laid end to end: how a list of segments looks to a transport of chunks.
template <class Byte>
class ScatterList {
public:
    void append(Byte* memory, std::size_t bytes) {
        if (bytes != 0) {
            pieces_.push_back({memory, bytes_});
            bytes_ += bytes;
        }
    }

    void append(const ScatterList& other) {
        for (std::size_t index = 0; index < other.pieces_.size(); ++index) {
            append(other.pieces_[index].memory, other.end_of(index) - other.pieces_[index].start);
        }
    }

    /// Keeps its own memory for the next pieces.
    void clear() noexcept {
        pieces_.clear();
        bytes_ = 0;
    }

    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

    /// Calls `function(memory, bytes, offset)` for each contiguous piece of the bytes from `begin`
    /// up to `end`; `offset` counts from `begin`.
    template <class Function>
    void for_each(std::size_t begin, std::size_t end, Function function) const {
        if (begin >= end) {
            return;
        }
        auto piece = std::upper_bound(
            pieces_.begin(), pieces_.end(), begin,
            [](std::size_t at, const Piece& candidate) { return at < candidate.start; });
        --piece;
        for (std::size_t at = begin; at < end; ++piece) {
            const auto next = piece + 1;
            const std::size_t stop = std::min(end, next == pieces_.end() ? bytes_ : next->start);
            function(piece->memory + (at - piece->start), stop - at, at - begin);
            at = stop;
        }
    }

private:
    struct Piece {
        Byte* memory;
        std::size_t start;
    };

    [[nodiscard]] std::size_t end_of(std::size_t index) const noexcept {
        return index + 1 < pieces_.size() ? pieces_[index + 1].start : bytes_;
    }

    std::vector<Piece> pieces_;
    std::size_t bytes_ = 0;
};

using InList = ScatterList<const std::byte>;
using OutList = ScatterList<std::byte>;

/// Input and output of a rank in an allreduce: the pieces of both have the same borders.
struct TaskLists {
    TaskLists() = default;
    explicit TaskLists(const Task& task) {
        for (const auto& segment : task.segments) {
            const auto bytes = segment.count * size_of(task.type);
            in.append(segment.in, bytes);
            out.append(segment.out, bytes);
        }
    }

    [[nodiscard]] std::size_t bytes() const noexcept { return in.bytes(); }

    /// Calls `function(in, out, bytes, offset)` for each piece of the range; `offset` counts from
    /// the begin of the range.
    template <class Function>
    void for_each(Range range, Function function) const {
        out.for_each(
            range.begin, range.end, [&](std::byte* to, std::size_t bytes, std::size_t offset) {
                const auto at = range.begin + offset;
                in.for_each(at, at + bytes, [&](const std::byte* from, std::size_t, std::size_t) {
                    function(from, to, bytes, offset);
                });
            });
    }

    InList in;
    OutList out;
};

/// Input and output of a member in a reducescatter: a list of inputs for each place, and the list
/// for its own place paired with the output.
class PartLists {
public:
    PartLists(const Task& task, int own, int members) : to_(static_cast<std::size_t>(members)) {
        const auto element_bytes = size_of(task.type);
        for (const auto& segment : task.segments) {
            const auto* from = segment.in;
            for (std::size_t place = 0; place < to_.size(); ++place) {
                const auto bytes = segment.counts[place] * element_bytes;
                to_[place].append(from, bytes);
                if (place == static_cast<std::size_t>(own)) {
                    own_.in.append(from, bytes);
                    own_.out.append(segment.out, bytes);
                }
                from += bytes;
            }
        }
        for (const auto& list : to_) {
            longest_ = std::max(longest_, list.bytes());
        }
    }

    [[nodiscard]] const InList& to(int place) const { return to_[static_cast<std::size_t>(place)]; }
    [[nodiscard]] const TaskLists& own() const noexcept { return own_; }
    /// Bytes of the longest part: the same on all members.
    [[nodiscard]] std::size_t longest() const noexcept { return longest_; }

private:
    std::vector<InList> to_;
    TaskLists own_;
    std::size_t longest_ = 0;
};

}  // namespace hvd::coll
