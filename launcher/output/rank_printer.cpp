// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/rank_printer.hpp"

#include "collectives/base/assert.hpp"

#include <array>
#include <cstdio>
#include <ctime>
#include <utility>

namespace hvd::launch {

RankPrinter::RankPrinter(int ranks,
                         OutputStream stream,
                         const LinePrefix& prefix,
                         const std::vector<RankPlace>& places)
    : ranks_(static_cast<std::size_t>(ranks) + 1) {
    for (std::size_t rank = 0; rank + 1 < ranks_.size(); ++rank) {
        ranks_[rank].prefix = prefix.fill(
            static_cast<int>(rank), rank < places.size() ? places[rank] : RankPlace(), stream);
        has_time_ = ranks_[rank].prefix.size() > 1;
    }
}

void RankPrinter::print(const Chunk& chunk, std::string& text) {
    if (chunk.kind == Chunk::Kind::notice) {
        text += chunk.text();
        return;
    }
    HVD_ASSERT(static_cast<std::size_t>(chunk.rank) < ranks_.size(), "output of a planned rank");
    auto& rank = ranks_[static_cast<std::size_t>(chunk.rank)];
    const auto emit = [&](const LineSplitter::Piece& piece) { append_piece(rank, piece, text); };
    if (chunk.kind == Chunk::Kind::ended) {
        rank.splitter.finish(emit);  // with the stamp of the last chunk, which brought the line
        return;
    }
    if (has_time_) {
        stamp(chunk.time_ns);
    }
    rank.splitter.feed(chunk.text(), emit);
}

void RankPrinter::append_piece(const Rank& rank,
                               const LineSplitter::Piece& piece,
                               std::string& text) const {
    if (!piece.is_line_feed_of_cr) {
        bool is_first = true;
        for (const auto& part : rank.prefix) {
            if (!std::exchange(is_first, false)) {
                text += stamp_;
            }
            text += part;
        }
    }
    text += piece.bytes;
    if (!piece.is_terminated) {
        text += '\n';
    }
}

void RankPrinter::stamp(std::int64_t time_ns) {
    if (time_ns != stamped_ns_) {
        stamped_ns_ = time_ns;
        stamp_ = format_utc(time_ns);
    }
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
