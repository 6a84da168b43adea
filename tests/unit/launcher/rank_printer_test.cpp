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

using TimePoint = RankPrinter::TimePoint;

constexpr TimePoint kStart{};
constexpr auto kShort = RankPrinter::kLongestWait / 2;
constexpr auto kLong = RankPrinter::kLongestWait;

Chunk data(int rank,
           std::string_view text,
           std::int64_t time_ns = 0,
           OutputStream stream = OutputStream::out) {
    Chunk chunk;
    chunk.stream = stream;
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

std::string print(RankPrinter& printer, const std::vector<Chunk>& chunks, TimePoint now = kStart) {
    std::string text;
    for (const auto& chunk : chunks) {
        printer.print(chunk, now, text);
    }
    return text;
}

/// The output that has waited for long enough on both streams.
std::string due(RankPrinter& printer, TimePoint now) {
    std::string text;
    printer.print_due(OutputStream::out, now, text);
    printer.print_due(OutputStream::err, now, text);
    return text;
}

}  // namespace

TEST_CASE("every line begins with its rank and stream") {
    RankPrinter printer(12, LinePrefix());

    CHECK(print(printer, {data(3, "a\nb\n"), data(11, "c\n")}) ==
          "[3]<stdout>:a\n[3]<stdout>:b\n[11]<stdout>:c\n");
    CHECK(print(printer, {data(0, "x\n", 0, OutputStream::err)}) == "[0]<stderr>:x\n");
}

TEST_CASE("lines of two ranks never mix, whatever the reads") {
    RankPrinter printer(2, LinePrefix());

    CHECK(print(printer, {data(0, "he"), data(1, "wor"), data(0, "llo\n"), data(1, "ld\n")}) ==
          "[0]<stdout>:hello\n[1]<stdout>:world\n");
}

TEST_CASE("a progress bar keeps its carriage returns, each step with its rank") {
    RankPrinter printer(1, LinePrefix());

    CHECK(print(printer, {data(0, "10%\r20%\r\n")}) == "[0]<stdout>:10%\r[0]<stdout>:20%\r\n");
}

TEST_CASE("a last line without an end gets one when its rank ends") {
    RankPrinter printer(2, LinePrefix());

    CHECK(print(printer, {data(0, "bye"), ended(1)}).empty());
    CHECK(print(printer, {ended(0)}) == "[0]<stdout>:bye\n");
    CHECK(print(printer, {ended(0)}).empty());
}

TEST_CASE("an unfinished line is printed after a tenth of a second, its end directly behind it") {
    RankPrinter printer(2, LinePrefix());

    CHECK_FALSE(printer.deadline());
    CHECK(print(printer, {data(0, "loading...")}).empty());
    CHECK(printer.deadline() == kStart + kLong);
    CHECK(due(printer, kStart + kShort).empty());
    CHECK(due(printer, kStart + kLong) == "[0]<stdout>:loading...");
    CHECK_FALSE(printer.deadline());
    CHECK(due(printer, kStart + 2 * kLong).empty());
    CHECK(print(printer, {data(0, " done\nnext\n")}) == " done\n[0]<stdout>:next\n");
}

TEST_CASE("a line that ends in time stays one piece, whatever came before it") {
    RankPrinter printer(2, LinePrefix());

    CHECK(print(printer, {data(0, "a")}).empty());
    CHECK(print(printer, {data(0, "b\nc")}, kStart + kShort) == "[0]<stdout>:ab\n");
    CHECK(printer.deadline() == kStart + kShort + kLong);
    CHECK(due(printer, kStart + kLong).empty());
    CHECK(print(printer, {data(1, "x\n"), data(0, "d\n")}, kStart + kLong) ==
          "[1]<stdout>:x\n[0]<stdout>:cd\n");
}

TEST_CASE("other output ends what was printed of a line, and its end gets the prefix again") {
    RankPrinter printer(2, LinePrefix());
    const auto other = GENERATE(data(1, "x\n"), data(0, "x\n", 0, OutputStream::err));
    const auto mark = other.rank == 1 ? "[1]<stdout>:" : "[0]<stderr>:";

    CHECK(print(printer, {data(0, "50%")}).empty());
    CHECK(due(printer, kStart + kLong) == "[0]<stdout>:50%");
    CHECK(print(printer, {other}) == std::string("\n") + mark + "x\n");
    CHECK(print(printer, {data(0, " ready\n")}) == "[0]<stdout>: ready\n");
}

TEST_CASE("a line end that other output has printed before is not repeated") {
    RankPrinter printer(2, LinePrefix());

    CHECK(print(printer, {data(0, "a")}).empty());
    CHECK(due(printer, kStart + kLong) == "[0]<stdout>:a");
    CHECK(print(printer, {data(1, "x\n"), data(0, "\nb\n")}) == "\n[1]<stdout>:x\n[0]<stdout>:b\n");
}

TEST_CASE("two unfinished lines do not share one") {
    RankPrinter printer(2, LinePrefix());

    CHECK(print(printer, {data(0, "a"), data(1, "b")}).empty());
    CHECK(due(printer, kStart + kLong) == "[0]<stdout>:a\n[1]<stdout>:b");
    CHECK(print(printer, {ended(0)}).empty());
    CHECK(print(printer, {ended(1)}) == "\n");
}

TEST_CASE("a notice begins a line of its own") {
    RankPrinter printer(1, LinePrefix());
    auto notice = data(0, "horovodrun: hello\n");
    notice.kind = Chunk::Kind::notice;

    CHECK(print(printer, {data(0, "a")}).empty());
    CHECK(due(printer, kStart + kLong) == "[0]<stdout>:a");
    CHECK(print(printer, {notice, data(0, "b\n")}) == "\nhorovodrun: hello\n[0]<stdout>:b\n");
}

TEST_CASE("a rank that reads standard input does not wait with its prompt") {
    RankPrinter printer(2, LinePrefix(), {}, 1);

    CHECK(print(printer, {data(0, "a"), data(1, "(Pdb) ")}) == "[1]<stdout>:(Pdb) ");
    CHECK(print(printer, {data(1, "x\n(Pdb) ")}) == "x\n[1]<stdout>:(Pdb) ");
}

TEST_CASE("a progress bar of a rank whose bars do not move is its last state") {
    RankPrinter printer(3, LinePrefix(), {}, std::nullopt, std::vector{0});

    CHECK(print(printer, {data(0, "\r10%"), data(1, "\r10%"), data(2, "a line\n")}) ==
          "[0]<stdout>:\r[2]<stdout>:a line\n");
    CHECK(due(printer, kStart + kLong) == "[0]<stdout>:10%");
    CHECK_FALSE(printer.deadline());
    CHECK(print(printer, {data(1, "\r20%"), data(0, "\r20%\r")}) == "\r[0]<stdout>:20%\r");
    CHECK(print(printer, {data(1, "\r100%\n"), data(1, "done\n")}) ==
          "[1]<stdout>:100%\n[1]<stdout>:done\n");

    CHECK(print(printer, {data(1, "Windows\r"), data(1, "\nline\r\n")}) ==
          "[1]<stdout>:Windows\r\n[1]<stdout>:line\r\n");
    CHECK(print(printer, {data(1, "50%\r"), ended(1), data(2, "\r"), ended(2)}) ==
          "[1]<stdout>:50%\n");
}

TEST_CASE("what a rank with a terminal writes is printed as it is, and on lines of its own") {
    RankPrinter printer(2, LinePrefix(), {}, std::nullopt, std::nullopt, 0);

    CHECK(print(printer, {data(0, "a\r\n> ")}) == "a\r\n> ");
    CHECK(print(printer, {data(0, "\x1b[2")}) == "\x1b[2");
    CHECK(print(printer, {data(1, "b\n"), data(0, "Jc\n"), ended(0)}) == "\n[1]<stdout>:b\nJc\n");

    (void)print(printer, {data(1, "waits")});
    CHECK(due(printer, kStart + kLong) == "[1]<stdout>:waits");
    CHECK(print(printer, {data(0, "d")}) == "\r\nd");
    CHECK(print(printer, {data(1, " long\n")}) == "\n[1]<stdout>: long\n");
}

TEST_CASE("a time stamp is that of the first byte of the line or of its rest") {
    RankPrinter printer(2, LinePrefix::stamped());
    const std::string second = "1970-01-01T00:00:00.00000";

    CHECK(print(printer, {data(0, "a", 1'000)}).empty());
    CHECK(print(printer, {data(0, "b\nc", 2'000)}) == second + "1Z[0]<stdout>:ab\n");
    CHECK(print(printer, {data(0, "d", 3'000)}, kStart + kShort).empty());
    CHECK(due(printer, kStart + kLong) == second + "2Z[0]<stdout>:cd");
    CHECK(print(printer, {data(1, "x\n", 4'000), data(0, "e\n", 5'000)}) ==
          "\n" + second + "4Z[1]<stdout>:x\n" + second + "5Z[0]<stdout>:e\n");
}

TEST_CASE("a timestamp is the time at the source, directly before the rank") {
    RankPrinter printer(1, LinePrefix::stamped());
    constexpr std::int64_t kTime = 1'769'850'900'123'456'789;

    CHECK(print(printer, {data(0, "a\nb\n", kTime)}) ==
          "2026-01-31T09:15:00.123456Z[0]<stdout>:a\n"
          "2026-01-31T09:15:00.123456Z[0]<stdout>:b\n");
    CHECK(format_utc(0) == "1970-01-01T00:00:00.000000Z");
}

TEST_CASE("a notice is printed as it is") {
    RankPrinter printer(1, LinePrefix::stamped());
    auto notice = data(0, "horovodrun: hello\n");
    notice.kind = Chunk::Kind::notice;

    CHECK(print(printer, {notice}) == "horovodrun: hello\n");
}

TEST_CASE("a prefix of one's own has the fields of its rank, and the time where it stands") {
    const std::vector<RankPlace> places{{.host = "node1", .local_rank = 0},
                                        {.host = "node2", .local_rank = 7}};
    const auto prefix = LinePrefix::parse("{{{rank}@{host}.{local_rank} {stream} {time}}} ");
    REQUIRE(prefix);
    RankPrinter printer(2, *prefix, places);

    CHECK(print(printer, {data(1, "a\nb\n", 0, OutputStream::err),
                          data(0, "c\n", 1'000, OutputStream::err)}) ==
          "{1@node2.7 stderr 1970-01-01T00:00:00.000000Z} a\n"
          "{1@node2.7 stderr 1970-01-01T00:00:00.000000Z} b\n"
          "{0@node1.0 stderr 1970-01-01T00:00:00.000001Z} c\n");
}

TEST_CASE("without a prefix lines are as the ranks wrote them") {
    const auto none = LinePrefix::parse("none");
    REQUIRE(none);
    RankPrinter printer(2, *none);

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
