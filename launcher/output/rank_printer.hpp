// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/output/chunk.hpp"
#include "launcher/output/line_splitter.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace hvd::launch {

/// Puts "[3]<stdout>:" in front of each line of one stream, as the original does, and with
/// timestamps the time at which the agent read it: "2026-01-31T09:15:00.123456Z[3]<stdout>:".
class RankPrinter final {
public:
    enum class Timestamps : std::uint8_t { no, yes };

    /// The lines of one more, of number `ranks`, get nothing in front: mpirun marks them itself.
    RankPrinter(int ranks, OutputStream stream, Timestamps timestamps);

    /// Appends what the chunk completes to `text`.
    void print(const Chunk& chunk, std::string& text);

private:
    struct Rank {
        std::string prefix;
        LineSplitter splitter;
    };

    void append_piece(const Rank& rank, const LineSplitter::Piece& piece, std::string& text) const;
    void stamp(std::int64_t time_ns);

    std::vector<Rank> ranks_;
    Timestamps timestamps_;
    std::int64_t stamped_ns_ = -1;
    std::string stamp_;
};

/// "2026-01-31T09:15:00.123456Z" for nanoseconds since 1970.
[[nodiscard]] std::string format_utc(std::int64_t time_ns);

}  // namespace hvd::launch
