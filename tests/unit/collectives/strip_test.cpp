// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/strip.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <string>

namespace hvd::coll {
namespace {

std::string between(const Strip<const char>& strip, std::size_t begin, std::size_t end) {
    std::string text;
    strip.for_each(begin, end, [&](const char* memory, std::size_t bytes, std::size_t offset) {
        CHECK(offset == text.size());
        CHECK(bytes > 0);
        text.append(memory, bytes);
    });
    return text;
}

TEST_CASE("pieces look like one strip, whatever the borders") {
    const std::string text = "abcdefghij";
    Strip<const char> strip;
    strip.append(nullptr, 0);
    strip.append("abc", 3);
    strip.append("d", 1);
    strip.append(nullptr, 0);
    strip.append("efghij", 6);
    strip.append(nullptr, 0);

    REQUIRE(strip.bytes() == text.size());
    for (std::size_t begin = 0; begin <= text.size(); ++begin) {
        for (std::size_t end = begin; end <= text.size(); ++end) {
            CHECK(between(strip, begin, end) == text.substr(begin, end - begin));
        }
    }
}

TEST_CASE("an empty range visits nothing, even beyond the end") {
    const Strip<const char> strip;

    CHECK(between(strip, 0, 0).empty());
    CHECK(between(strip, 7, 3).empty());
}

}  // namespace
}  // namespace hvd::coll
