// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/output/chunk.hpp"
#include "launcher/output/line_prefix.hpp"
#include "launcher/output/line_splitter.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace hvd::launch {

/// Puts its rank's prefix in front of each line of one stream. The time in it is that at which the
/// agent read the line.
class RankPrinter final {
public:
    /// `places` may be empty where the prefix has nothing of them. The lines of one more, of number
    /// `ranks`, get nothing in front: mpirun marks them itself.
    RankPrinter(int ranks,
                OutputStream stream,
                const LinePrefix& prefix,
                const std::vector<RankPlace>& places = {});

    /// Appends what the chunk completes to `text`.
    void print(const Chunk& chunk, std::string& text);

private:
    struct Rank {
        std::vector<std::string> prefix;  // with the time between its pieces
        LineSplitter splitter;
    };

    void append_piece(const Rank& rank, const LineSplitter::Piece& piece, std::string& text) const;
    void stamp(std::int64_t time_ns);

    std::vector<Rank> ranks_;
    bool has_time_ = false;
    std::int64_t stamped_ns_ = -1;
    std::string stamp_;
};

/// "2026-01-31T09:15:00.123456Z" for nanoseconds since 1970.
[[nodiscard]] std::string format_utc(std::int64_t time_ns);

}  // namespace hvd::launch
