// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/rank_printer.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <vector>

using hvd::launch::Chunk;
using hvd::launch::format_utc;
using hvd::launch::LinePrefix;
using hvd::launch::OutputStream;
using hvd::launch::RankPlace;
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
    RankPrinter out(12, OutputStream::out, LinePrefix());
    RankPrinter err(12, OutputStream::err, LinePrefix());

    CHECK(print(out, {data(3, "a\nb\n"), data(11, "c\n")}) ==
          "[3]<stdout>:a\n[3]<stdout>:b\n[11]<stdout>:c\n");
    CHECK(print(err, {data(0, "x\n")}) == "[0]<stderr>:x\n");
}

TEST_CASE("lines of two ranks never mix, whatever the reads") {
    RankPrinter printer(2, OutputStream::out, LinePrefix());

    CHECK(print(printer, {data(0, "he"), data(1, "wor"), data(0, "llo\n"), data(1, "ld\n")}) ==
          "[0]<stdout>:hello\n[1]<stdout>:world\n");
}

TEST_CASE("a progress bar keeps its carriage returns, each step with its rank") {
    RankPrinter printer(1, OutputStream::out, LinePrefix());

    CHECK(print(printer, {data(0, "10%\r20%\r\n")}) == "[0]<stdout>:10%\r[0]<stdout>:20%\r\n");
}

TEST_CASE("a last line without an end gets one when its rank ends") {
    RankPrinter printer(2, OutputStream::out, LinePrefix());

    CHECK(print(printer, {data(0, "bye"), ended(1)}).empty());
    CHECK(print(printer, {ended(0)}) == "[0]<stdout>:bye\n");
    CHECK(print(printer, {ended(0)}).empty());
}

TEST_CASE("a timestamp is the time at the source, directly before the rank") {
    RankPrinter printer(1, OutputStream::out, LinePrefix::stamped());
    constexpr std::int64_t kTime = 1'769'850'900'123'456'789;

    CHECK(print(printer, {data(0, "a\nb\n", kTime)}) ==
          "2026-01-31T09:15:00.123456Z[0]<stdout>:a\n"
          "2026-01-31T09:15:00.123456Z[0]<stdout>:b\n");
    CHECK(format_utc(0) == "1970-01-01T00:00:00.000000Z");
}

TEST_CASE("a notice is printed as it is") {
    RankPrinter printer(1, OutputStream::err, LinePrefix::stamped());
    auto notice = data(0, "horovodrun: hello\n");
    notice.kind = Chunk::Kind::notice;

    CHECK(print(printer, {notice}) == "horovodrun: hello\n");
}

TEST_CASE("a prefix of one's own has the fields of its rank, and the time where it stands") {
    const std::vector<RankPlace> places{{.host = "node1", .local_rank = 0},
                                        {.host = "node2", .local_rank = 7}};
    const auto prefix = LinePrefix::parse("{{{rank}@{host}.{local_rank} {stream} {time}}} ");
    REQUIRE(prefix);
    RankPrinter printer(2, OutputStream::err, *prefix, places);

    CHECK(print(printer, {data(1, "a\nb\n"), data(0, "c\n", 1'000)}) ==
          "{1@node2.7 stderr 1970-01-01T00:00:00.000000Z} a\n"
          "{1@node2.7 stderr 1970-01-01T00:00:00.000000Z} b\n"
          "{0@node1.0 stderr 1970-01-01T00:00:00.000001Z} c\n");
}

TEST_CASE("without a prefix lines are as the ranks wrote them") {
    const auto none = LinePrefix::parse("none");
    REQUIRE(none);
    RankPrinter printer(2, OutputStream::out, *none);

    CHECK(print(printer, {data(0, "a"), data(1, "b\n"), data(0, "c\n")}) == "b\nac\n");
}

TEST_CASE("a prefix that cannot be right is refused with what is wrong") {
    CHECK(LinePrefix::parse("{rank}{pid} ").error().message ==
          "there is no field {pid}; those are {rank}, {host}, {local_rank}, {stream} and {time}, "
          "and {{ is a brace");
    CHECK(LinePrefix::parse("a {rank").error().message ==
          "'{rank' has no closing brace; write {{ for a brace");
    CHECK(LinePrefix::parse("").error().message ==
          "write none for no prefix at all, or one such as '[{rank} {host}] '");
    CHECK(*LinePrefix::parse("}") == *LinePrefix::parse("}}"));
}
