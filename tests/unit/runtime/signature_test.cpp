// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/signature.hpp"

#include <catch2/catch.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using hvd::coll::DataType;
using hvd::coll::Op;
using hvd::coll::ProcessSet;
using hvd::coll::ReduceOp;
using hvd::coll::Wire;
using hvd::rt::complete_signature;
using hvd::rt::dense_strides;
using hvd::rt::Kind;
using hvd::rt::Shape;
using hvd::rt::share_of_rows;
using hvd::rt::Signature;

namespace {

const ProcessSet kPair{.id = 0, .ranks = {0, 1}, .place = 0, .hosts = {0, 0}};
const ProcessSet kOdd{.id = 4, .ranks = {1, 3, 5}, .place = 1, .hosts = {0, 0, 0}};

Signature square(Op op) {
    Signature signature;
    signature.op = op;
    signature.shape = {2, 2};
    return signature;
}

/// Why the signature is refused; empty where it is not.
std::string refusal(Signature signature, const ProcessSet& set = kPair) {
    const auto checked = complete_signature(signature, set);
    if (checked) {
        return "";
    }
    CHECK(checked.error().code == hvd::Errc::invalid_argument);
    return checked.error().message;
}

}  // namespace

TEST_CASE("row-major strides are left out, other dense orders are kept") {
    CHECK(Shape(*dense_strides(Shape{2, 3}, Shape{3, 1})) == Shape{});
    CHECK(Shape(*dense_strides(Shape{2, 3}, Shape{1, 2})) == Shape{1, 2});
    CHECK(Shape(*dense_strides(Shape{2, 8, 4, 4}, Shape{128, 1, 32, 8})) == Shape{128, 1, 32, 8});
    CHECK(Shape(*dense_strides(Shape{}, Shape{})) == Shape{});
}

TEST_CASE("dimensions of one element and empty tensors may have any strides") {
    CHECK(Shape(*dense_strides(Shape{1, 3}, Shape{77, 1})) == Shape{});
    CHECK(Shape(*dense_strides(Shape{3, 1}, Shape{1, 0})) == Shape{});
    CHECK(Shape(*dense_strides(Shape{0, 3}, Shape{5, 5})) == Shape{});
}

TEST_CASE("gaps, overlaps and backward strides are refused with the remedy") {
    const auto strides = GENERATE(values<Shape>({{4, 1}, {1, 1}, {0, 1}, {-3, -1}, {6, 2}}));
    CAPTURE(strides);

    const auto dense = dense_strides(Shape{2, 3}, strides);

    REQUIRE_FALSE(dense);
    CHECK(dense.error().code == hvd::Errc::invalid_argument);
    CHECK(dense.error().message.find("contiguous") != std::string::npos);
}

TEST_CASE("what every rank can run is accepted") {
    const auto op = GENERATE(Op::allreduce, Op::allgather, Op::broadcast, Op::barrier, Op::alltoall,
                             Op::reducescatter);
    CAPTURE(to_string(op));

    CHECK(refusal(square(op)) == "");
}

TEST_CASE("what no rank could run is refused") {
    auto scalar = square(GENERATE(Op::allgather, Op::alltoall, Op::reducescatter));
    CAPTURE(to_string(scalar.op));
    auto turned = scalar;
    turned.strides = {1, 2};
    CHECK(refusal(turned) ==
          std::string(to_string(turned.op)) + " needs a row-major tensor, not strides [1, 2]");
    scalar.shape = {};
    CHECK(refusal(scalar) == std::string(to_string(scalar.op)) +
                                 " works along the first dimension, but the tensor is a scalar");

    auto huge = square(Op::allreduce);
    huge.shape = {std::numeric_limits<std::int64_t>::max(), 2};
    CHECK(refusal(huge) != "");
    auto negative = square(Op::allreduce);
    negative.shape = {2, -1};
    CHECK(refusal(negative) == "shape [2, -1] has a negative dimension");
    auto scale = square(Op::allreduce);
    scale.postscale = std::numeric_limits<double>::quiet_NaN();
    CHECK(refusal(scale) != "");
    scale.postscale = 1;
    scale.prescale = std::numeric_limits<double>::infinity();
    CHECK(refusal(scale) != "");
}

TEST_CASE("sums and averages of wide floats may travel as halves") {
    auto narrow = square(GENERATE(Op::allreduce, Op::reducescatter));
    narrow.wire = GENERATE(Wire::f16, Wire::bf16);
    narrow.reduce = GENERATE(ReduceOp::sum, ReduceOp::average);
    narrow.type = GENERATE(DataType::f32, DataType::f64);
    CHECK(refusal(narrow) == "");
    CHECK(byte_count(narrow) == 4 * hvd::coll::size_of(narrow.type));
    CHECK(wire_byte_count(narrow) == 8);
    narrow.wire = Wire::own;
    CHECK(wire_byte_count(narrow) == byte_count(narrow));
}

TEST_CASE("a half that is to travel as it is travels as it is") {
    auto half = square(Op::allreduce);
    half.type = DataType::bf16;
    half.wire = Wire::bf16;

    REQUIRE(complete_signature(half, kPair));

    CHECK(half.wire == Wire::own);
}

TEST_CASE("what else cannot be rounded on the way is refused with the remedy") {
    struct Row {
        Signature signature;
        std::string why;
    };
    const auto& row = GENERATE(values<Row>({
        {{.op = Op::broadcast, .wire = Wire::f16},
         "float16: only allreduce and reducescatter round values on the way, not broadcast"},
        {{.kind = Kind::join, .wire = Wire::bf16},
         "bfloat16: only allreduce and reducescatter round values on the way, not join"},
        {{.reduce = ReduceOp::max, .wire = Wire::f16},
         "float16: only sum and average round values on the way, not max"},
        {{.reduce = ReduceOp::adasum, .wire = Wire::f16},
         "float16: only sum and average round values on the way, not adasum"},
        {{.type = DataType::i32, .wire = Wire::f16},
         "float16: only float32 and float64 are rounded on the way, not int32"},
        {{.type = DataType::f16, .wire = Wire::bf16},
         "bfloat16: only float32 and float64 are rounded on the way, not float16"},
    }));

    CHECK(refusal(row.signature) ==
          "wire_dtype " + row.why + "; leave it 0, the tensor's own dtype");
}

TEST_CASE("a root is a rank of the world, and a member of the set") {
    auto broadcast = square(Op::broadcast);

    broadcast.root = 2;
    CHECK(refusal(broadcast) == "root 2 is not a rank of a world of 2");
    CHECK(refusal(broadcast, kOdd) == "root 2 is not a rank of process set 4");
    broadcast.root = 5;
    CHECK(refusal(broadcast, kOdd) == "");
    broadcast.root = -1;
    CHECK(refusal(broadcast) != "");
}

TEST_CASE("bools have no average, and adasum is for floats and allreduce") {
    const auto op = GENERATE(Op::allreduce, Op::reducescatter);
    auto bools = square(op);
    bools.type = DataType::boolean;
    bools.reduce = ReduceOp::average;
    CHECK(refusal(bools).starts_with("bool cannot be averaged"));
    bools.reduce = ReduceOp::max;
    CHECK(refusal(bools) == "");

    auto adasum = square(Op::allreduce);
    adasum.reduce = ReduceOp::adasum;
    CHECK(refusal(adasum) == "");
    adasum.type = DataType::i32;
    CHECK(refusal(adasum) == "adasum needs a floating-point tensor, not int32");
    adasum.type = DataType::bf16;
    CHECK(refusal(adasum) == "");
    adasum.op = Op::reducescatter;
    CHECK(refusal(adasum).starts_with("adasum is a way to allreduce"));
}

TEST_CASE("an alltoall without splits shares its rows evenly, or not at all") {
    auto even = square(Op::alltoall);
    even.shape = {6, 2};
    REQUIRE(complete_signature(even, kOdd));
    CHECK(even.splits == std::vector<std::int64_t>{2, 2, 2});

    auto uneven = square(Op::alltoall);
    uneven.shape = {5};
    CHECK(refusal(uneven, kOdd) ==
          "alltoall without splits: the first dimension, 5, is not a multiple of the 3 ranks of "
          "process set 4");
}

TEST_CASE("splits name every rank of the set, and no more rows than there are") {
    auto signature = square(Op::alltoall);
    signature.shape = {5};
    const auto with = [&](std::vector<std::int64_t> splits) {
        signature.splits = std::move(splits);
        return refusal(signature, kOdd);
    };

    CHECK(with({5, 0, 0}) == "");
    CHECK(with({1, 0, 1}) == "");  // what is left over goes nowhere
    CHECK(with({1, 4}) ==
          "alltoall needs one split for each of the 3 ranks of process set 4, not 2");
    CHECK(with({6, -1, 0}).ends_with("sum to more than the first dimension, 5"));
    CHECK(with({1, -1, 0}) == "splits [1, -1, 0] have a negative number of rows");
    CHECK(with({2, 2, 2}) == "splits [2, 2, 2] sum to more than the first dimension, 5");
    const auto most = std::numeric_limits<std::int64_t>::max();
    CHECK(with({most, most, 2}) != "");  // whose sum wraps to 0
}

TEST_CASE("a reducescatter gives uneven rows to the first ranks") {
    CHECK(share_of_rows(7, 0, 3) == 3);
    CHECK(share_of_rows(7, 1, 3) == 2);
    CHECK(share_of_rows(7, 2, 3) == 2);
    CHECK(share_of_rows(2, 1, 3) == 1);
    CHECK(share_of_rows(2, 2, 3) == 0);
    CHECK(share_of_rows(0, 0, 3) == 0);
}

TEST_CASE("changes of membership move no tensor") {
    const auto kind = GENERATE(Kind::join, Kind::add_process_set, Kind::remove_process_set);
    Signature signature{.kind = kind};
    signature.shape = {7};

    CHECK_FALSE(has_tensor(signature));
    CHECK_FALSE(has_open_size(signature));
    CHECK(byte_count(signature) == 0);
    CHECK(refusal(signature) == "");
}
