// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/signature.hpp"

#include <catch2/catch.hpp>

#include <limits>

using hvd::coll::DataType;
using hvd::coll::Op;
using hvd::coll::ReduceOp;
using hvd::rt::check;
using hvd::rt::dense_strides;
using hvd::rt::Shape;
using hvd::rt::Signature;

TEST_CASE("row-major strides are left out, other dense orders are kept") {
    CHECK(*dense_strides(Shape{2, 3}, Shape{3, 1}) == Shape{});
    CHECK(*dense_strides(Shape{2, 3}, Shape{1, 2}) == Shape{1, 2});
    CHECK(*dense_strides(Shape{2, 8, 4, 4}, Shape{128, 1, 32, 8}) == Shape{128, 1, 32, 8});
    CHECK(*dense_strides(Shape{}, Shape{}) == Shape{});
}

TEST_CASE("dimensions of one element and empty tensors may have any strides") {
    CHECK(*dense_strides(Shape{1, 3}, Shape{77, 1}) == Shape{});
    CHECK(*dense_strides(Shape{3, 1}, Shape{1, 0}) == Shape{});
    CHECK(*dense_strides(Shape{0, 3}, Shape{5, 5}) == Shape{});
}

TEST_CASE("gaps, overlaps and backward strides are refused with the remedy") {
    const auto strides = GENERATE(values<Shape>({{4, 1}, {1, 1}, {0, 1}, {-3, -1}, {6, 2}}));
    CAPTURE(strides);

    const auto dense = dense_strides(Shape{2, 3}, strides);

    REQUIRE_FALSE(dense);
    CHECK(dense.error().code == hvd::Errc::invalid_argument);
    CHECK(dense.error().message.find("contiguous") != std::string::npos);
}

TEST_CASE("what no rank could run is refused") {
    Signature signature;
    signature.shape = {2, 2};
    CHECK(check(signature, 2));

    auto scalar = signature;
    scalar.op = Op::allgather;
    scalar.shape = {};
    CHECK_FALSE(check(scalar, 2));
    auto turned = signature;
    turned.op = Op::allgather;
    turned.strides = {1, 2};
    CHECK_FALSE(check(turned, 2));
    auto root = signature;
    root.op = Op::broadcast;
    root.root = 2;
    CHECK_FALSE(check(root, 2));
    auto bools = signature;
    bools.type = DataType::boolean;
    bools.reduce = ReduceOp::average;
    CHECK_FALSE(check(bools, 2));
    auto huge = signature;
    huge.shape = {std::numeric_limits<std::int64_t>::max(), 2};
    CHECK_FALSE(check(huge, 2));
    auto scale = signature;
    scale.postscale = std::numeric_limits<double>::quiet_NaN();
    CHECK_FALSE(check(scale, 2));
}
