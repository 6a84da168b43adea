// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/shape.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

using hvd::rt::Shape;

namespace {

Shape of(std::size_t dimensions) {
    std::vector<std::int64_t> extents(dimensions);
    std::iota(extents.begin(), extents.end(), 1);
    return Shape(extents);
}

bool has(const Shape& shape, std::size_t dimensions) {
    std::vector<std::int64_t> extents(dimensions);
    std::iota(extents.begin(), extents.end(), 1);
    return std::vector<std::int64_t>(shape.begin(), shape.end()) == extents;
}

}  // namespace

TEST_CASE("a shape keeps its extents, few or many, when it is copied and moved") {
    const std::size_t from = GENERATE(0U, 1U, 5U, 6U, 255U);
    const std::size_t to = GENERATE(0U, 1U, 5U, 6U, 255U);
    CAPTURE(from, to);
    const auto source = of(from);
    Shape copied = of(to);
    Shape moved = of(to);
    Shape temporary = source;

    copied = source;
    moved = std::move(temporary);

    CHECK(has(source, from));
    CHECK(has(copied, from));
    CHECK(has(moved, from));
    const Shape made = std::move(copied);
    CHECK(has(made, from));
    CHECK(moved == source);
    CHECK((of(to) == source) == (from == to));
    copied = moved;  // a shape that was moved from takes another
    CHECK(has(copied, from));
    moved.clear();
    CHECK(moved.empty());
}

TEST_CASE("shapes are equal where all extents are") {
    CHECK(Shape{2, 3} == Shape{2, 3});
    CHECK_FALSE(Shape{2, 3} == Shape{2, 4});
    CHECK_FALSE(Shape{2} == Shape{2, 1});
    CHECK(Shape{} == Shape{});
}
