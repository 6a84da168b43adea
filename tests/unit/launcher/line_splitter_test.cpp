// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/line_splitter.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <vector>

using hvd::launch::LineSplitter;

namespace {

/// Pieces as text; one whose line end is missing gets a '$', the \n of an earlier \r a '^'.
std::vector<std::string> split(LineSplitter& splitter, const std::vector<std::string>& reads) {
    std::vector<std::string> pieces;
    const auto keep = [&](const LineSplitter::Piece& piece) {
        pieces.push_back((piece.is_line_feed_of_cr ? "^" : "") + std::string(piece.bytes) +
                         (piece.is_terminated ? "" : "$"));
    };
    for (const auto& bytes : reads) {
        splitter.feed(bytes, keep);
    }
    splitter.finish(keep);
    return pieces;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("a line is given whole, however it was cut between reads") {
    struct Example {
        Strings reads;
        Strings pieces;
    };
    const auto& example = GENERATE(values<Example>({
        {{"a\nb\n"}, {"a\n", "b\n"}},
        {{"a", "b", "\n"}, {"ab\n"}},
        {{"a\nb", "c\nd"}, {"a\n", "bc\n", "d$"}},
        {{"\n\n"}, {"\n", "\n"}},
        {{""}, {}},
        {{"no end"}, {"no end$"}},
    }));
    CAPTURE(example.reads);
    LineSplitter splitter;

    CHECK(split(splitter, example.reads) == example.pieces);
}

TEST_CASE("the steps of a progress bar are pieces of their own") {
    struct Example {
        Strings reads;
        Strings pieces;
    };
    const auto& example = GENERATE(values<Example>({
        {{"\r10%\r20%\rdone\n"}, {"\r", "10%\r", "20%\r", "done\n"}},
        {{"10%\r", "20%\r"}, {"10%\r", "20%\r"}},
        {{"10%\r20", "%\r"}, {"10%\r", "20%\r"}},
    }));
    CAPTURE(example.reads);
    LineSplitter splitter;

    CHECK(split(splitter, example.reads) == example.pieces);
}

TEST_CASE("carriage return and line feed end one line") {
    LineSplitter splitter;

    CHECK(split(splitter, {"a\r\nb\r\n"}) == Strings{"a\r\n", "b\r\n"});
    CHECK(split(splitter, {"a\r", "\nb\n"}) == Strings{"a\r", "^\n", "b\n"});
}

TEST_CASE("bytes that are no text pass unchanged") {
    const std::string bytes("\0\xff\xfe\xc3\n\x80", 6);
    LineSplitter splitter;

    CHECK(split(splitter, {bytes}) == Strings{bytes.substr(0, 5), bytes.substr(5) + "$"});
}

TEST_CASE("a line without an end costs no more memory than the largest piece") {
    LineSplitter splitter;
    const std::string block(LineSplitter::kMaxPiece / 4, 'x');

    const auto pieces = split(splitter, {block, block, block, block, "end\n"});

    REQUIRE(pieces.size() == 2);
    CHECK(pieces[0].size() == LineSplitter::kMaxPiece + 1);
    CHECK(pieces[0].back() == '$');
    CHECK(pieces[1] == "end\n");
}
