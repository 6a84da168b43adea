// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/readiness.hpp"

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

using hvd::coll::DataType;
using hvd::coll::Op;
using hvd::coll::ReduceOp;
using hvd::rt::AnnouncedGroup;
using hvd::rt::Announcement;
using hvd::rt::find_disagreement;
using hvd::rt::Kind;
using hvd::rt::ReadinessTable;
using hvd::rt::Signature;

namespace {

const std::vector<int> kNobody;

Announcement grad(Signature signature = {}) {
    return {.process_set = 0,
            .members = {{.name = "grad", .signature = std::move(signature)}},
            .failure = {}};
}

Announcement shaped(Op op, hvd::rt::Shape shape) {
    Signature signature;
    signature.op = op;
    signature.shape = std::move(shape);
    return grad(signature);
}

/// Of ranks from 0 on.
std::optional<hvd::Error> disagreement(std::vector<Announcement> announcements) {
    AnnouncedGroup group;
    for (std::size_t rank = 0; rank < announcements.size(); ++rank) {
        group.ranks.push_back(static_cast<int>(rank));
    }
    group.announcements = std::move(announcements);
    return find_disagreement(group);
}

}  // namespace

TEST_CASE("a tensor is ready when the last rank announces it, in any order") {
    ReadinessTable table({0, 1, 2});

    table.announce(2, grad());
    table.announce(0, grad());
    CHECK_FALSE(table.take_if_complete("grad", kNobody));
    table.announce(1, grad());
    const auto group = table.take_if_complete("grad", kNobody);

    REQUIRE(group);
    CHECK(group->ranks == std::vector{0, 1, 2});
    CHECK(group->announcements.size() == 3);
    CHECK(table.waiting(kNobody).empty());
}

TEST_CASE("a set needs its own ranks alone") {
    ReadinessTable table({1, 4});

    table.announce(4, shaped(Op::allreduce, {4}));
    table.announce(1, shaped(Op::allreduce, {1}));
    const auto group = table.take_if_complete("grad", kNobody);

    REQUIRE(group);
    CHECK(group->ranks == std::vector{1, 4});
    CHECK(group->announcements.front() == shaped(Op::allreduce, {1}));
}

TEST_CASE("absent ranks are not waited for") {
    ReadinessTable table({0, 1, 2});
    table.announce(0, grad());

    CHECK_FALSE(table.take_if_complete("grad", std::vector{1}));
    CHECK(table.waiting(std::vector{1}).front().missing == std::vector{2});
    const auto group = table.take_if_complete("grad", std::vector{2, 1});

    REQUIRE(group);
    CHECK(group->ranks == std::vector{0});
}

TEST_CASE("a rank that announces twice replaces what it said") {
    ReadinessTable table({0, 1});

    table.announce(1, shaped(Op::allreduce, {1}));
    table.announce(1, shaped(Op::allreduce, {2}));
    table.announce(0, shaped(Op::allreduce, {2}));
    const auto group = table.take_if_complete("grad", kNobody);

    REQUIRE(group);
    CHECK(group->ranks == std::vector{0, 1});
    CHECK_FALSE(find_disagreement(*group));
}

TEST_CASE("what waits is listed with the ranks that are missing") {
    ReadinessTable table({0, 1, 2});
    table.announce(1, grad());

    const auto waiting = table.waiting(kNobody);

    REQUIRE(waiting.size() == 1);
    CHECK(waiting.front().name == "grad");
    CHECK(waiting.front().missing == std::vector{0, 2});
}

TEST_CASE("the same name starts a new round after a decision") {
    ReadinessTable table({0});

    table.announce(0, grad());
    CHECK(table.take_if_complete("grad", kNobody));
    CHECK_FALSE(table.take_if_complete("grad", kNobody));
    table.announce(0, grad());
    CHECK(table.take_if_complete("grad", kNobody));
}

TEST_CASE("names that wait are listed in an order of their own") {
    ReadinessTable table({0, 1});
    for (const auto* name : {"c", "a", "b"}) {
        auto announcement = grad();
        announcement.members.front().name = name;
        table.announce(0, announcement);
    }

    CHECK(table.names() == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("a disagreement names the tensor, the values and the ranks of each side") {
    auto f64 = grad();
    f64.members.front().signature.type = DataType::f64;

    const auto error = disagreement({grad(), f64, grad(), f64, f64});

    REQUIRE(error);
    CHECK(error->code == hvd::Errc::mismatch);
    CHECK(error->message ==
          "tensor 'grad': ranks disagree on the dtype: float32 on ranks 0,2, "
          "float64 on ranks 1,3-4");
}

TEST_CASE("allgather's first dimension may differ, and nothing behind it") {
    CHECK_FALSE(disagreement({shaped(Op::allgather, {2, 3}), shaped(Op::allgather, {7, 3})}));

    const auto other = disagreement({shaped(Op::allgather, {2, 3}), shaped(Op::allgather, {2, 4})});
    REQUIRE(other);
    CHECK(other->message ==
          "tensor 'grad': ranks disagree on the shape behind the first "
          "dimension: [3] on rank 0, [4] on rank 1");
}

TEST_CASE("alltoall's rows and splits may differ, and no dimension may be missing") {
    auto first = shaped(Op::alltoall, {2, 3});
    first.members.front().signature.splits = {2, 0};
    auto second = shaped(Op::alltoall, {5, 3});
    second.members.front().signature.splits = {1, 4};
    CHECK_FALSE(disagreement({first, second}));

    second.members.front().signature.shape = {5};
    const auto error = disagreement({first, second});
    REQUIRE(error);
    CHECK(error->message ==
          "tensor 'grad': ranks disagree on the number of dimensions: 2 on rank 0, 1 on rank 1");
}

TEST_CASE("every aspect that matters to an operation is compared") {
    struct Change {
        Op op;
        void (*change)(Signature&);
        std::string message;
    };
    const auto& change = GENERATE(values<Change>({
        {Op::reducescatter, [](Signature& s) { s.shape = {5}; },
         "the shape: [4] on rank 0, [5] on rank 1"},
        {Op::reducescatter, [](Signature& s) { s.reduce = ReduceOp::max; },
         "the reduce operation: sum on rank 0, max on rank 1"},
        {Op::allreduce, [](Signature& s) { s.wire = hvd::coll::Wire::bf16; },
         "the dtype that travels (wire_dtype): float32 on rank 0, bfloat16 on rank 1"},
        {Op::reducescatter, [](Signature& s) { s.prescale = 2; },
         "the prescale factor: 1 on rank 0, 2 on rank 1"},
        {Op::allreduce, [](Signature& s) { s.over_contributing = true; },
         "what an average divides by: all ranks on rank 0, the ranks that contribute on rank 1"},
        {Op::allreduce, [](Signature& s) { s.strides = {2}; },
         "the memory layout (strides): row-major on rank 0, [2] on rank 1"},
        {Op::allreduce, [](Signature& s) { s.device.kind = hvd::coll::Device::Kind::cuda; },
         "the device: host on rank 0, cuda on rank 1"},
        {Op::broadcast, [](Signature& s) { s.root = 1; },
         "the root rank: 0 on rank 0, 1 on rank 1"},
        {Op::allreduce, [](Signature& s) { s = {.kind = Kind::add_process_set}; },
         "the operation: allreduce on rank 0, adding a process set on rank 1"},
    }));
    CAPTURE(change.message);
    auto second = shaped(change.op, {4});
    change.change(second.members.front().signature);

    const auto error = disagreement({shaped(change.op, {4}), second});

    REQUIRE(error);
    CHECK(error->message == "tensor 'grad': ranks disagree on " + change.message);
}

TEST_CASE("what does not matter to an operation may differ") {
    Signature first;
    first.op = Op::broadcast;
    first.prescale = 2;
    Signature second = first;
    second.prescale = 3;
    second.reduce = ReduceOp::max;
    second.over_contributing = true;

    CHECK_FALSE(disagreement({grad(first), grad(second)}));
}

TEST_CASE("a barrier has no tensor to compare") {
    auto first = shaped(Op::barrier, {});
    auto second = shaped(Op::barrier, {7});
    second.members.front().signature.type = DataType::i8;

    CHECK_FALSE(disagreement({first, second}));
}

TEST_CASE("a difference explains more than the failure of a rank") {
    auto failed = shaped(Op::allreduce, {4});
    failed.failure = "no memory";
    CHECK(disagreement({shaped(Op::allreduce, {4}), failed})->message ==
          "tensor 'grad': rank 1: no memory");

    CHECK(disagreement({shaped(Op::allreduce, {5}), failed})->code == hvd::Errc::mismatch);
}
