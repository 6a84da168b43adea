// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/model/line_prefix.hpp"
#include "launcher/output/chunk.hpp"
#include "launcher/output/line_splitter.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch {

/// Puts its rank's prefix in front of each line on one console. The time in it is that at which the
/// agent read the line's first byte.
///
/// A line that does not end within kLongestWait is printed as far as it has come. Its end follows
/// directly where nothing else was printed since; else a line end separates them, and the end gets
/// the prefix again.
///
/// Output of a rank with a terminal, `terminal_rank`, is printed as it is and at once; only in
/// front of other text a line end is added to it.
class RankPrinter final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    static constexpr auto kLongestWait = std::chrono::milliseconds(100);

    /// `places` may be empty where the prefix has nothing of them. The lines of one more, of number
    /// `ranks`, get nothing in front: mpirun marks them itself. Unfinished lines of `input_rank`,
    /// or of number `ranks`, which somebody answers, do not wait. Progress bars of ranks that are
    /// not among `bars` do not move: only their last state is printed.
    RankPrinter(int ranks,
                const LinePrefix& prefix,
                const std::vector<RankPlace>& places = {},
                std::optional<int> input_rank = std::nullopt,
                const std::optional<std::vector<int>>& bars = std::nullopt,
                std::optional<int> terminal_rank = std::nullopt);
    ~RankPrinter() = default;
    RankPrinter(const RankPrinter&) = delete;
    RankPrinter& operator=(const RankPrinter&) = delete;
    RankPrinter(RankPrinter&&) = default;
    RankPrinter& operator=(RankPrinter&&) = default;

    /// Appends to `text` what can be printed now of the chunk and of what came before.
    void print(const Chunk& chunk, TimePoint now, std::string& text);

    /// When the first unfinished line has waited for long enough.
    [[nodiscard]] std::optional<TimePoint> deadline() const;

    /// Appends the unfinished lines of `stream` that have waited for long enough at `now`.
    void print_due(OutputStream stream, TimePoint now, std::string& text);

private:
    /// One stream of one rank.
    struct Line {
        std::vector<std::string> prefix;  // with the time between its pieces
        LineSplitter splitter;
        bool is_terminal = false;  // see `terminal_rank`
        bool is_answered = false;  // see `input_rank`
        bool is_waiting = false;   // it is in waiting_
        bool has_moving_bars = true;
        std::string bar;    // the last state of one that does not move
        TimePoint began{};  // what waits in the splitter
        std::int64_t began_ns = 0;
    };

    [[nodiscard]] Line& line_of(const Chunk& chunk);
    void print_terminal(const Line& line, const Chunk& chunk, std::string& text);
    void append_piece(Line& line, const LineSplitter::Piece& piece, std::string& text);
    void append_text(const Line& line, const LineSplitter::Piece& piece, std::string& text);
    void begin_waiting(Line& line, const Chunk& chunk, TimePoint now);
    [[nodiscard]] const std::string& stamp();

    std::size_t ranks_;        // and one more
    std::vector<Line> lines_;  // of standard output by rank, then of standard error
    std::vector<Line*> waiting_;
    const Line* open_ = nullptr;  // the last that was printed ends in a fragment of this line
    std::int64_t time_ns_ = 0;    // of the piece at hand
    std::int64_t stamped_ns_ = -1;
    std::string stamp_;  // of stamped_ns_
};

/// "2026-01-31T09:15:00.123456Z" for nanoseconds since 1970.
[[nodiscard]] std::string format_utc(std::int64_t time_ns);

}  // namespace hvd::launch
