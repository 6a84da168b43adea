// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/scatter_list.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <string>

namespace hvd::coll {
namespace {

std::string between(const ScatterList<const char>& list, std::size_t begin, std::size_t end) {
    std::string text;
    list.for_each(begin, end, [&](const char* memory, std::size_t bytes, std::size_t offset) {
        CHECK(offset == text.size());
        CHECK(bytes > 0);
        text.append(memory, bytes);
    });
    return text;
}

TEST_CASE("pieces look like one list, whatever the borders") {
    const std::string text = "abcdefghij";
    ScatterList<const char> list;
    list.append(nullptr, 0);
    list.append("abc", 3);
    list.append("d", 1);
    list.append(nullptr, 0);
    list.append("efghij", 6);
    list.append(nullptr, 0);

    REQUIRE(list.bytes() == text.size());
    for (std::size_t begin = 0; begin <= text.size(); ++begin) {
        for (std::size_t end = begin; end <= text.size(); ++end) {
            CHECK(between(list, begin, end) == text.substr(begin, end - begin));
        }
    }
}

TEST_CASE("the slices of a range are whole elements, one behind the other, and all of it") {
    const Range whole{.begin = 8, .end = 8 + 10 * 4};

    std::size_t at = whole.begin;
    for (std::size_t index = 0; index < 3; ++index) {
        const auto slice = whole.slice(index, 3, 4);
        CHECK(slice.begin == at);
        CHECK(slice.size() % 4 == 0);
        CHECK(slice.size() >= 12);  // three elements
        at = slice.end;
    }
    CHECK(at == whole.end);
}

TEST_CASE("a task passes its inputs and outputs in pairs") {
    std::array<std::byte, 8> in{};
    std::array<std::byte, 8> out{};
    const TaskLists lists({.type = DataType::u8,
                           .segments = {{.in = in.data(), .out = out.data(), .count = 3},
                                        {.in = nullptr, .out = nullptr, .count = 0},
                                        {.in = &in[3], .out = &out[3], .count = 5}}});
    REQUIRE(lists.bytes() == in.size());

    std::size_t at = 2;
    lists.for_each({.begin = 2, .end = 7}, [&](const std::byte* from, std::byte* to,
                                               std::size_t bytes, std::size_t offset) {
        CHECK(from == &in[at]);
        CHECK(to == &out[at]);
        CHECK(offset == at - 2);
        at += bytes;
    });
    CHECK(at == 7);
}

TEST_CASE("an empty range has no pieces, even beyond the end") {
    const ScatterList<const char> list;

    CHECK(between(list, 0, 0).empty());
    CHECK(between(list, 7, 3).empty());
}

}  // namespace
}  // namespace hvd::coll
