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
using hvd::rt::Operation;
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
        {Op::reducescatter, ReduceOp::max, DataType::i64, {8}, 64},
        {Op::alltoall, ReduceOp::sum, DataType::f32, {3}, kNotCarried},
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
