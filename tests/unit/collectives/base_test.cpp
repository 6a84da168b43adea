// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/bytes.hpp"
#include "collectives/base/frames.hpp"
#include "collectives/base/text.hpp"
#include "collectives/base/unix_socket.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using hvd::ByteReader;
using hvd::ByteWriter;

TEST_CASE("what a writer wrote, a reader reads") {
    ByteWriter writer;
    writer.number(std::uint16_t{7});
    writer.text("grad");
    writer.list(std::vector{1, 2, 3}, [&](int value) { writer.number(value); });

    ByteReader reader(writer.bytes());

    CHECK(reader.number<std::uint16_t>() == 7);
    CHECK(reader.text() == "grad");
    CHECK(reader.list<int>([&] { return reader.number<int>(); }) == std::vector{1, 2, 3});
    CHECK(reader.finish("message"));
}

TEST_CASE("a short message fails at its end and stays failed") {
    ByteWriter writer;
    writer.number(std::uint32_t{1'000'000});  // a text's length without the text

    ByteReader reader(writer.bytes());

    CHECK(reader.text().empty());
    CHECK(reader.number<std::uint8_t>() == 0);
    CHECK_FALSE(reader.finish("message"));
}

TEST_CASE("a forged list length allocates nothing") {
    ByteWriter writer;
    writer.number(std::uint32_t{0xFFFFFFFF});

    ByteReader reader(writer.bytes());

    CHECK(reader.list<int>([&] { return reader.number<int>(); }).empty());
    CHECK(reader.failed());
}

TEST_CASE("numbers are whole texts or nothing") {
    CHECK(hvd::parse_number<int>("-3") == -3);
    const auto* text = GENERATE("", " 3", "3 ", "3x", "0x3", "99999999999", "+3");
    CAPTURE(text);
    CHECK_FALSE(hvd::parse_number<int>(text));
}

TEST_CASE("a typing error finds its nearest name, nonsense finds none") {
    constexpr std::array<std::string_view, 3> kNames{"hosts", "hostfile", "verbose"};

    CHECK(hvd::nearest("hots", kNames) == "hosts");
    CHECK(hvd::nearest("hostfle", kNames) == "hostfile");
    CHECK_FALSE(hvd::nearest("zzzzzz", kNames));
}

TEST_CASE("ASCII is converted to lower case, and nothing else") {
    CHECK(hvd::to_lower("Node-1.EXAMPLE_Ä@[`{") == "node-1.example_Ä@[`{");
    CHECK(hvd::equals_ignoring_case("Node1", "nODE1"));
    CHECK_FALSE(hvd::equals_ignoring_case("node1", "node11"));
    CHECK_FALSE(hvd::equals_ignoring_case("@", "`"));
}

TEST_CASE("words are taken apart as sh does") {
    const auto [text, words] = GENERATE(table<std::string, std::vector<std::string>>({
        {"", {}},
        {"  --mca  pml ucx ", {"--mca", "pml", "ucx"}},
        {"-x 'a b' \"c'd\" e\\ f ''", {"-x", "a b", "c'd", "e f", ""}},
        {"a'b c'd", {"ab cd"}},
    }));
    CAPTURE(text);

    const auto split = hvd::split_shell_words(text);

    REQUIRE(split);
    CHECK(*split == words);
    CHECK_FALSE(hvd::split_shell_words("it's"));
}

TEST_CASE("words that are put together for a shell can be taken apart again") {
    const std::vector<std::string> words{"a", "", "b c", "it's", "x=$y", "-o/p:1,2"};

    CHECK(hvd::quote_words(words) == "a '' 'b c' 'it'\\''s' 'x=$y' -o/p:1,2");
    CHECK(*hvd::split_shell_words(hvd::quote_words(words)) == words);
}

TEST_CASE("control characters are shown, and what people write in is kept") {
    CHECK(hvd::escape_controls(std::string_view("a\0\x1b[\x7f\t", 6)) == "a\\x00\\x1b[\\x7f\\x09");
    CHECK(hvd::escape_controls("größe '\\'") == "größe '\\'");
}

TEST_CASE("a short word has no nearest name by accident") {
    constexpr std::array<std::string_view, 2> kNames{"cb", "np"};
    const auto* word = GENERATE("n", "nq", "mca");
    CAPTURE(word);

    CHECK_FALSE(hvd::nearest(word, kNames));
}

TEST_CASE("of many parts the first are named and the others counted") {
    const std::vector<std::string> parts{"a", "b", "c"};

    CHECK(hvd::join_first({}, 2).empty());
    CHECK(hvd::join_first(parts, 4) == "a, b, c");
    CHECK(hvd::join_first(parts, 3) == "a, b, c");
    CHECK(hvd::join_first(parts, 2) == "a, b and 1 more");
    CHECK(hvd::join_first(parts, 1, "more hosts") == "a and 2 more hosts");
}

TEST_CASE("several lines are shown as one, without what moves the cursor") {
    CHECK(hvd::one_line(" a\tb \r\n\n\x1b[1mc\x7f", 20) == "a?b; ?[1mc?");
    CHECK(hvd::one_line("abcdef", 4) == "...cdef");
    CHECK(hvd::one_line("\n \n", 4).empty());
}

TEST_CASE("globs match as in a shell") {
    CHECK(hvd::matches_glob("NCCL_DEBUG", "NCCL_*"));
    CHECK(hvd::matches_glob("abcbc", "a*bc"));
    CHECK(hvd::matches_glob("", "*"));
    CHECK(hvd::matches_glob("abc", "a?c"));
    CHECK_FALSE(hvd::matches_glob("abc", "a?"));
    CHECK_FALSE(hvd::matches_glob("XNCCL", "NCCL*"));
}

TEST_CASE("ranges read back what they print") {
    CHECK(hvd::format_ranges(std::vector{0, 2, 3, 4, 9}) == "0,2-4,9");
    CHECK(hvd::parse_ranges("9,2-4,0,3") == std::vector{0, 2, 3, 4, 9});
    const auto* text = GENERATE("", "a", "3-1", "1-", "-1", "1,,2", "0-99999999");
    CAPTURE(text);
    CHECK_FALSE(hvd::parse_ranges(text));
}

TEST_CASE("only listening abstract sockets with the prefix are found, whatever else is listed") {
    const std::string table =
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000: 00000002 00000000 00010000 0005 01   123 @horovod/0/7.9/0/ab\n"
        "0000: 00000003 00000000 00000000 0005 03   124 @horovod/0/7.9/0/cd\n"  // a connection
        "0000: 00000002 00000000 00010000 0005 01   125 @horovod/0/7.9/0-mpi/ef\n"
        "0000: 00000002 00000000 00010000 0001 01 26261 /run/x/horovod/0/7.9/0/gh\n"
        "0000: 00000002 00000000 00010000 0005 01   126\n";

    CHECK(hvd::listening_abstract_names(table, "horovod/0/7.9/0/") ==
          std::vector<std::string>{"horovod/0/7.9/0/ab"});
}

TEST_CASE("frames come whole, however the bytes are cut, and not without end") {
    const std::vector<std::byte> body{std::byte{1}, std::byte{2}, std::byte{3}};
    const auto frame = hvd::frame_of(body);
    hvd::FrameBuffer buffer;
    for (std::size_t at = 0; at + 1 < frame.size(); ++at) {
        buffer.feed(std::span(frame).subspan(at, 1));
        CHECK_FALSE(*buffer.next(16, "test"));
    }
    buffer.feed(std::span(frame).last(1));

    const auto whole = buffer.next(16, "test");
    REQUIRE((whole && *whole));
    CHECK(std::vector<std::byte>((*whole)->begin(), (*whole)->end()) == body);
    CHECK_FALSE(*buffer.next(16, "test"));

    buffer.feed(hvd::frame_of(std::vector<std::byte>(17)));
    CHECK_FALSE(buffer.next(16, "test"));
}
