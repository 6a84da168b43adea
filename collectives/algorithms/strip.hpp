// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hvd::coll {

/// Pieces of memory laid end to end: how a list of segments looks to a transport of chunks.
template <class Byte>
class Strip {
public:
    void append(Byte* memory, std::size_t bytes) {
        if (bytes != 0) {
            pieces_.push_back({memory, bytes_});
            bytes_ += bytes;
        }
    }

    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

    /// Calls `visit(memory, bytes, offset)` for what lies between `begin` and `end`; `offset`
    /// counts from `begin`.
    template <class Visit>
    void for_each(std::size_t begin, std::size_t end, Visit visit) const {
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
            visit(piece->memory + (at - piece->start), stop - at, at - begin);
            at = stop;
        }
    }

private:
    struct Piece {
        Byte* memory;
        std::size_t start;
    };

    std::vector<Piece> pieces_;
    std::size_t bytes_ = 0;
};

using InStrip = Strip<const std::byte>;
using OutStrip = Strip<std::byte>;

}  // namespace hvd::coll
