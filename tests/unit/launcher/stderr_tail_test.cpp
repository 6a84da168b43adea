// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/stderr_tail.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using hvd::launch::StderrTail;
using Lines = std::vector<std::string>;

TEST_CASE("the tail has the last lines without their ends") {
    StderrTail tail;
    tail.add("one\ntw");
    tail.add("o\n\nlast");

    CHECK(tail.lines() == Lines{"one", "two", "", "last"});
}

TEST_CASE("nothing written is no line") {
    CHECK(StderrTail().lines().empty());
}

TEST_CASE("only the last twenty lines are kept") {
    StderrTail tail;
    for (int line = 0; line < 100; ++line) {
        tail.add(std::to_string(line) + "\n");
    }

    const auto lines = tail.lines();

    REQUIRE(lines.size() == StderrTail::kMaxLines);
    CHECK(lines.front() == "80");
    CHECK(lines.back() == "99");
}

TEST_CASE("of a progress bar only the last step is kept") {
    StderrTail tail;
    tail.add("10%\r20%\r30%\r\nfailed\n");

    CHECK(tail.lines() == Lines{"30%", "failed"});
}

TEST_CASE("a rank that writes much costs little, and the cut shows") {
    StderrTail tail;
    for (int step = 0; step < 100; ++step) {
        tail.add(std::string(1000, 'x'));
    }
    tail.add("\nend\n");

    const auto lines = tail.lines();

    REQUIRE(lines.size() == 2);
    CHECK(lines[0].starts_with("...xxx"));
    CHECK(lines[0].size() <= StderrTail::kMaxBytes + 3);
    CHECK(lines[1] == "end");
}

TEST_CASE("as many lines are kept as were asked for, with room for them") {
    StderrTail none(0);
    StderrTail two(2);
    StderrTail many(200);
    for (int line = 0; line < 300; ++line) {
        const auto text = std::to_string(line) + std::string(100, '.') + "\n";
        none.add(text);
        two.add(text);
        many.add(text);
    }

    CHECK(none.lines().empty());
    CHECK(two.lines().size() == 2);
    REQUIRE(many.lines().size() == 200);
    CHECK(many.lines().front().starts_with("100."));
}

TEST_CASE("what ranks are compared by is the same however many lines were asked for") {
    StderrTail none(0);
    StderrTail usual;
    StderrTail many(1000);
    for (int line = 0; line < 300; ++line) {
        const auto text = std::to_string(line) + std::string(100, '.') + "\n";
        none.add(text);
        usual.add(text);
        many.add(text);
    }

    CHECK(usual.words().size() > StderrTail::kMaxLines);
    CHECK(usual.words().back().starts_with("299."));
    CHECK(none.words() == usual.words());
    CHECK(many.words() == usual.words());
}

TEST_CASE("what TensorFlow and absl print while they start is left out") {
    StderrTail tail;
    tail.add(
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
        "I0000 00:00:1795636811.382892   23327 port.cc:153] oneDNN custom operations are on.\n"
        "2026-01-31 09:15:00.123456: I tensorflow/core/util/port.cc:153] oneDNN is on.\n"
        "E0000 00:00:1795636811.38 7 cuda_dnn.cc:8454] Unable to register cuDNN factory: twice\n"
        "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow\n"
        "W0000 00:00:1795636811.38 7 op_kernel.cc:1816] OP_REQUIRES failed\n"
        "2026-01-31 09:15:00.123456: F tensorflow/core/a.cc:1] Check failed\n");

    CHECK(tail.lines() ==
          Lines{"W0000 00:00:1795636811.38 7 op_kernel.cc:1816] OP_REQUIRES failed",
                "2026-01-31 09:15:00.123456: F tensorflow/core/a.cc:1] Check failed"});
}

TEST_CASE("escape sequences of a terminal are left out") {
    StderrTail tail;
    tail.add("\x1b[1;31mValueError\x1b[0m: \x1b[?25hno data\r\n");
    tail.add("\x1b]0;a title\atext\x1b]8;;http://a\x1b\\link\x1b(B\x1b=\n");
    tail.add("cut \x1b[1");
    tail.add(";3\n\x1b");

    CHECK(tail.lines() == Lines{"ValueError: no data", "textlink", "cut ", ""});
}

TEST_CASE("many lines that are long are cut as a whole") {
    StderrTail tail(1000);
    for (int line = 0; line < 1000; ++line) {
        tail.add(std::string(999, 'x') + "\n");
    }

    const auto lines = tail.lines();

    CHECK(lines.size() <= StderrTail::kMostBytes / 1000 + 1);
    CHECK(lines.size() >= StderrTail::kMostBytes / 1000);
    CHECK(lines.front().starts_with("...x"));
}
