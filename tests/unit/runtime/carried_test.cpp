// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/carried.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

using hvd::coll::DataType;
using hvd::coll::Op;
using hvd::coll::ReduceOp;
using hvd::rt::carried_bytes;
using hvd::rt::kNotCarried;
using hvd::rt::move_to_own_parts;
using hvd::rt::Operation;
using hvd::rt::own_part_of;
using hvd::rt::payload_of;
using hvd::rt::Shape;

namespace {

/// This rank is number 1 of three.
const hvd::coll::ProcessSet kWorld{.id = 0, .ranks = {0, 1, 2}, .place = 1, .hosts = {0, 0, 0}};

}  // namespace

TEST_CASE("a proposal carries the input of what each rank can finish by itself") {
    struct Row {
        Op op;
        ReduceOp reduce;
        DataType type;
        Shape shape;
        std::size_t bytes;
    };
    const auto row = GENERATE(values<Row>({
        {Op::allreduce, ReduceOp::sum, DataType::f32, {}, 4},
        {Op::allreduce, ReduceOp::average, DataType::f32, {17}, 68},
        {Op::allreduce, ReduceOp::product, DataType::bf16, {3, 1}, 6},
        {Op::allreduce, ReduceOp::sum, DataType::f64, {0}, 0},
        {Op::allreduce, ReduceOp::adasum, DataType::f32, {1}, kNotCarried},
        {Op::allreduce, ReduceOp::adasum_across_hosts, DataType::f32, {1}, kNotCarried},
        {Op::reducescatter, ReduceOp::max, DataType::i64, {8}, 64},
        {Op::barrier, ReduceOp::sum, DataType::f32, {}, 0},
    }));
    std::array<std::byte, 256> memory{};
    Operation operation;
    operation.in = memory.data();
    operation.signature = {
        .op = row.op, .reduce = row.reduce, .type = row.type, .shape = row.shape};

    CHECK(carried_bytes(operation.signature, {}) == row.bytes);
    if (row.bytes != kNotCarried) {
        CHECK(payload_of(operation, kWorld).data() == operation.in);
        CHECK(payload_of(operation, kWorld).size() == row.bytes);
    }
}

TEST_CASE("values that are rounded on the way are not carried: others would read them unrounded") {
    CHECK(carried_bytes({.wire = hvd::coll::Wire::f16, .shape = {1}}, {}) == kNotCarried);
    CHECK(carried_bytes({.op = Op::reducescatter, .wire = hvd::coll::Wire::bf16, .shape = {3}},
                        {}) == kNotCarried);
}

TEST_CASE("of what a rank gives, the part for itself need not travel") {
    std::array<std::byte, 256> memory{};
    Operation operation;
    operation.in = memory.data();
    operation.signature = {.op = Op::reducescatter, .type = DataType::i64, .shape = {8, 2}};

    CHECK(own_part_of(operation, kWorld).begin == 3 * 16);
    CHECK(own_part_of(operation, kWorld).end == 6 * 16);

    operation.signature = {
        .op = Op::alltoall, .type = DataType::f32, .shape = {9, 2}, .splits = {3, 4, 2}};
    CHECK(own_part_of(operation, kWorld).begin == 3 * 8);
    CHECK(own_part_of(operation, kWorld).end == 7 * 8);

    operation.signature = {.op = Op::allreduce, .type = DataType::f32, .shape = {9}};
    CHECK(own_part_of(operation, kWorld).end == 0);
}

TEST_CASE("only the root of a broadcast puts something in, but all ranks count the same bytes") {
    std::array<std::byte, 64> memory{};
    Operation operation;
    operation.in = memory.data();
    operation.signature = {.op = Op::broadcast, .type = DataType::u8, .shape = {64}};

    for (const int root : {0, 1, 2}) {
        operation.signature.root = root;
        CHECK(carried_bytes(operation.signature, {}) == 64);
        CHECK(payload_of(operation, kWorld).size() == (root == 1 ? 64 : 0));
    }
}

TEST_CASE("of an allgather the largest part counts, which all ranks know") {
    std::array<std::byte, 64> memory{};
    Operation operation;
    operation.in = memory.data();
    operation.signature = {.op = Op::allgather, .type = DataType::f32, .shape = {1, 2}};
    const std::vector<std::int64_t> rows{0, 1, 9};

    CHECK(carried_bytes(operation.signature, rows) == 72);
    CHECK(payload_of(operation, kWorld).size() == 8);
}

TEST_CASE("of an alltoall a rank gives what it sends, and all know how much the largest gives") {
    constexpr std::size_t kRow = 2 * sizeof(float);
    std::array<std::byte, 256> memory{};
    Operation operation;
    operation.in = memory.data();
    operation.signature = {
        .op = Op::alltoall, .type = DataType::f32, .shape = {9, 2}, .splits = {3, 0, 2}};
    operation.first_dims = {1, 2, 0, 3, 0, 2, 4, 4, 4};

    CHECK(carried_bytes(operation.signature, operation.first_dims) == 12 * kRow);
    CHECK(payload_of(operation, kWorld).data() == operation.in);
    CHECK(payload_of(operation, kWorld).size() == 5 * kRow);

    std::array<const std::byte*, 3> inputs{};
    inputs.fill(memory.data());
    move_to_own_parts(operation, kWorld, inputs);
    CHECK(inputs[0] == memory.data() + 1 * kRow);
    CHECK(inputs[1] == memory.data() + 3 * kRow);
    CHECK(inputs[2] == memory.data() + 4 * kRow);
}
