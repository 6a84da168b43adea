// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/rank_printer.hpp"

#include "collectives/base/assert.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <utility>

namespace hvd::launch {

RankPrinter::RankPrinter(int ranks,
                         const LinePrefix& prefix,
                         const std::vector<RankPlace>& places,
                         std::optional<int> input_rank,
                         const std::optional<std::vector<int>>& bars,
                         std::optional<int> terminal_rank)
    : ranks_(static_cast<std::size_t>(ranks) + 1), lines_(2 * ranks_) {
    for (std::size_t rank = 0; rank + 1 < ranks_; ++rank) {
        for (const auto stream : {OutputStream::out, OutputStream::err}) {
            auto& line = lines_[static_cast<std::size_t>(stream) * ranks_ + rank];
            line.prefix = prefix.fill(static_cast<int>(rank),
                                      rank < places.size() ? places[rank] : RankPlace(), stream);
            line.has_moving_bars =
                !bars || std::ranges::find(*bars, static_cast<int>(rank)) != bars->end();
        }
    }
    if (input_rank) {
        const auto rank = static_cast<std::size_t>(*input_rank);
        lines_.at(rank).is_answered = true;
        lines_.at(ranks_ + rank).is_answered = true;
    }
    if (terminal_rank) {
        lines_.at(static_cast<std::size_t>(*terminal_rank)).is_terminal = true;
    }
}

RankPrinter::Line& RankPrinter::line_of(const Chunk& chunk) {
    const auto rank = static_cast<std::size_t>(chunk.rank);
    HVD_ASSERT(rank < ranks_, "output of a planned rank");
    return lines_[static_cast<std::size_t>(chunk.stream) * ranks_ + rank];
}

void RankPrinter::print(const Chunk& chunk, TimePoint now, std::string& text) {
    if (chunk.kind == Chunk::Kind::notice) {
        if (std::exchange(open_, nullptr) != nullptr) {
            text += '\n';
        }
        text += chunk.text();
        return;
    }
    auto& line = line_of(chunk);
    if (line.is_terminal) {
        print_terminal(line, chunk, text);
        return;
    }
    const bool had_partial = line.splitter.has_partial();
    // The first piece begins with what waited.
    auto time_ns = had_partial ? line.began_ns : chunk.time_ns;
    const auto emit = [&](const LineSplitter::Piece& piece) {
        time_ns_ = std::exchange(time_ns, chunk.time_ns);
        append_piece(line, piece, text);
    };
    if (chunk.kind == Chunk::Kind::ended) {
        line.splitter.finish(emit);
        if (line.bar.size() > 1) {
            const auto bar = std::exchange(line.bar, "");
            emit(
                {.bytes = std::string_view(bar).substr(0, bar.size() - 1), .is_terminated = false});
        }
        return;
    }
    const bool was_complete =
        !had_partial || chunk.text().find_first_of("\r\n") != std::string::npos;
    line.splitter.feed(chunk.text(), emit);
    if (!line.splitter.has_partial()) {
        return;
    }
    if (!line.bar.empty()) {
        return;  // a bar that does not move
    }
    if (was_complete) {
        begin_waiting(line, chunk, now);
    }
    if (line.is_answered) {
        line.splitter.show(emit);
    }
}

void RankPrinter::print_terminal(const Line& line, const Chunk& chunk, std::string& text) {
    if (chunk.bytes.empty()) {
        return;
    }
    if (open_ != nullptr && open_ != &line) {
        text += "\r\n";
    }
    text += chunk.text();
    open_ = text.ends_with('\n') ? nullptr : &line;
}

void RankPrinter::begin_waiting(Line& line, const Chunk& chunk, TimePoint now) {
    line.began = now;
    line.began_ns = chunk.time_ns;
    if (!std::exchange(line.is_waiting, true)) {
        waiting_.push_back(&line);
    }
}

std::optional<RankPrinter::TimePoint> RankPrinter::deadline() const {
    std::optional<TimePoint> first;
    for (const auto* line : waiting_) {
        if (line->splitter.has_partial() && (!first || line->began < *first)) {
            first = line->began;
        }
    }
    return first ? std::optional(*first + kLongestWait) : first;
}

void RankPrinter::print_due(OutputStream stream, TimePoint now, std::string& text) {
    std::erase_if(waiting_, [&](Line* line) {
        const bool is_due = line->began + kLongestWait <= now;
        const bool is_of_stream = static_cast<std::size_t>(line - lines_.data()) / ranks_ ==
                                  static_cast<std::size_t>(stream);
        if (line->splitter.has_partial() && is_due && is_of_stream) {
            time_ns_ = line->began_ns;
            line->splitter.show(
                [&](const LineSplitter::Piece& piece) { append_piece(*line, piece, text); });
        }
        line->is_waiting = line->splitter.has_partial();
        return !line->is_waiting;
    });
}

void RankPrinter::append_piece(Line& line, const LineSplitter::Piece& piece, std::string& text) {
    if (!line.has_moving_bars && piece.bytes.ends_with('\r')) {
        line.bar = piece.bytes;
        return;
    }
    const auto bar = std::exchange(line.bar, "");
    if (!bar.empty() && piece.is_line_feed_of_cr) {  // it was a line
        append_text(line, {.bytes = bar + "\n"}, text);
        return;
    }
    append_text(line, piece, text);
}

void RankPrinter::append_text(const Line& line,
                              const LineSplitter::Piece& piece,
                              std::string& text) {
    const bool goes_on = piece.continues && open_ == &line;
    const bool is_only_end = piece.bytes.find_first_not_of("\r\n") == std::string_view::npos;
    if (piece.continues && !goes_on && is_only_end) {
        return;  // the line has been ended before other output
    }
    if (!goes_on && open_ != nullptr) {
        text += '\n';
    }
    if (!goes_on && !piece.is_line_feed_of_cr) {
        bool is_first = true;
        for (const auto& part : line.prefix) {
            if (!std::exchange(is_first, false)) {
                text += stamp();
            }
            text += part;
        }
    }
    text += piece.bytes;
    if (!piece.is_terminated && !piece.is_fragment) {
        text += '\n';
    }
    open_ = piece.is_fragment ? &line : nullptr;
}

const std::string& RankPrinter::stamp() {
    if (stamped_ns_ != time_ns_) {
        stamped_ns_ = time_ns_;
        stamp_ = format_utc(time_ns_);
    }
    return stamp_;
}

std::string format_utc(std::int64_t time_ns) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const auto seconds = static_cast<std::time_t>(time_ns / kSecond);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    std::array<char, 40> text{};
    const auto size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
    const int more = std::snprintf(text.data() + size, text.size() - size, ".%06dZ",
                                   static_cast<int>(time_ns % kSecond / 1000));
    return {text.data(), size + static_cast<std::size_t>(more)};
}

}  // namespace hvd::launch
