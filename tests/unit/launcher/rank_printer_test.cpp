// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/rank_printer.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <vector>

using hvd::launch::Chunk;
using hvd::launch::format_utc;
using hvd::launch::OutputStream;
using hvd::launch::RankPrinter;

namespace {

Chunk data(int rank, std::string_view text, std::int64_t time_ns = 0) {
    Chunk chunk;
    chunk.rank = rank;
    chunk.time_ns = time_ns;
    const auto* raw = reinterpret_cast<const std::byte*>(text.data());
    chunk.bytes.assign(raw, raw + text.size());
    return chunk;
}

Chunk ended(int rank) {
    auto chunk = data(rank, "");
    chunk.kind = Chunk::Kind::ended;
    return chunk;
}

std::string print(RankPrinter& printer, const std::vector<Chunk>& chunks) {
    std::string text;
    for (const auto& chunk : chunks) {
        printer.print(chunk, text);
    }
    return text;
}

}  // namespace

TEST_CASE("every line begins with its rank and stream") {
    RankPrinter out(12, OutputStream::out, RankPrinter::Timestamps::no);
    RankPrinter err(12, OutputStream::err, RankPrinter::Timestamps::no);

    CHECK(print(out, {data(3, "a\nb\n"), data(11, "c\n")}) ==
          "[3]<stdout>:a\n[3]<stdout>:b\n[11]<stdout>:c\n");
    CHECK(print(err, {data(0, "x\n")}) == "[0]<stderr>:x\n");
}

TEST_CASE("lines of two ranks never mix, whatever the reads") {
    RankPrinter printer(2, OutputStream::out, RankPrinter::Timestamps::no);

    CHECK(print(printer, {data(0, "he"), data(1, "wor"), data(0, "llo\n"), data(1, "ld\n")}) ==
          "[0]<stdout>:hello\n[1]<stdout>:world\n");
}

TEST_CASE("a progress bar keeps its carriage returns, each step with its rank") {
    RankPrinter printer(1, OutputStream::out, RankPrinter::Timestamps::no);

    CHECK(print(printer, {data(0, "10%\r20%\r\n")}) == "[0]<stdout>:10%\r[0]<stdout>:20%\r\n");
}

TEST_CASE("a last line without an end gets one when its rank ends") {
    RankPrinter printer(2, OutputStream::out, RankPrinter::Timestamps::no);

    CHECK(print(printer, {data(0, "bye"), ended(1)}).empty());
    CHECK(print(printer, {ended(0)}) == "[0]<stdout>:bye\n");
    CHECK(print(printer, {ended(0)}).empty());
}

TEST_CASE("a timestamp is the time at the source, directly before the rank") {
    RankPrinter printer(1, OutputStream::out, RankPrinter::Timestamps::yes);
    constexpr std::int64_t kTime = 1'769'850'900'123'456'789;

    CHECK(print(printer, {data(0, "a\nb\n", kTime)}) ==
          "2026-01-31T09:15:00.123456Z[0]<stdout>:a\n"
          "2026-01-31T09:15:00.123456Z[0]<stdout>:b\n");
    CHECK(format_utc(0) == "1970-01-01T00:00:00.000000Z");
}

TEST_CASE("a notice is printed as it is") {
    RankPrinter printer(1, OutputStream::err, RankPrinter::Timestamps::yes);
    auto notice = data(0, "horovodrun: hello\n");
    notice.kind = Chunk::Kind::notice;

    CHECK(print(printer, {notice}) == "horovodrun: hello\n");
}
