// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/readiness.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using hvd::coll::DataType;
using hvd::coll::Op;
using hvd::rt::Announcement;
using hvd::rt::find_disagreement;
using hvd::rt::ReadinessTable;
using hvd::rt::Signature;

namespace {

Announcement grad(Signature signature = {}) {
    return {.members = {{.name = "grad", .signature = std::move(signature)}}};
}

Announcement shaped(Op op, hvd::rt::Shape shape) {
    Signature signature;
    signature.op = op;
    signature.shape = std::move(shape);
    return grad(signature);
}

}  // namespace

TEST_CASE("a tensor is ready when the last rank announces it, in any order") {
    ReadinessTable table(3);

    CHECK_FALSE(table.announce(2, grad()));
    CHECK_FALSE(table.announce(0, grad()));
    const auto said = table.announce(1, grad());

    REQUIRE(said);
    CHECK(said->size() == 3);
    CHECK(table.waiting().empty());
}

TEST_CASE("a rank that announces twice replaces what it said") {
    ReadinessTable table(2);

    CHECK_FALSE(table.announce(1, shaped(Op::allreduce, {1})));
    CHECK_FALSE(table.announce(1, shaped(Op::allreduce, {2})));
    const auto said = table.announce(0, shaped(Op::allreduce, {2}));

    REQUIRE(said);
    CHECK_FALSE(find_disagreement(*said));
}

TEST_CASE("what waits is listed with the ranks that are missing") {
    ReadinessTable table(3);
    CHECK_FALSE(table.announce(1, grad()));

    const auto waiting = table.waiting();

    REQUIRE(waiting.size() == 1);
    CHECK(waiting.front().unit == "grad");
    CHECK(waiting.front().missing == std::vector{0, 2});
}

TEST_CASE("the same name starts a new round after a decision") {
    ReadinessTable table(1);

    CHECK(table.announce(0, grad()));
    CHECK(table.announce(0, grad()));
}

TEST_CASE("a disagreement names the tensor, the values and the ranks of each side") {
    auto f64 = grad();
    f64.members.front().signature.type = DataType::f64;

    const auto error = find_disagreement({grad(), f64, grad(), f64, f64});

    REQUIRE(error);
    CHECK(error->code == hvd::Errc::mismatch);
    CHECK(error->message ==
          "tensor 'grad': ranks disagree on the dtype: float32 on ranks 0,2, "
          "float64 on ranks 1,3-4");
}

TEST_CASE("allgather's first dimension may differ, and nothing behind it") {
    CHECK_FALSE(find_disagreement({shaped(Op::allgather, {2, 3}), shaped(Op::allgather, {7, 3})}));

    const auto other =
        find_disagreement({shaped(Op::allgather, {2, 3}), shaped(Op::allgather, {2, 4})});
    REQUIRE(other);
    CHECK(other->message ==
          "tensor 'grad': ranks disagree on the shape behind the first "
          "dimension: [3] on rank 0, [4] on rank 1");
}

TEST_CASE("what does not matter to an operation may differ") {
    Signature first;
    first.op = Op::broadcast;
    first.prescale = 2;
    Signature second = first;
    second.prescale = 3;
    second.reduce = hvd::coll::ReduceOp::max;

    CHECK_FALSE(find_disagreement({grad(first), grad(second)}));
}

TEST_CASE("groups of another length are a disagreement") {
    auto pair = grad();
    pair.members.push_back({.name = "bias", .signature = {}});

    const auto error = find_disagreement({pair, grad()});

    REQUIRE(error);
    CHECK(error->message ==
          "tensor 'grad': ranks disagree on the number of tensors in its group: 2 "
          "on rank 0, 1 on rank 1");
}
