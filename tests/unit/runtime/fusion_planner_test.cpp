// SPDX-License-Identifier: Apache-2.0
#include "runtime/fusion/planner.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

using hvd::coll::DataType;
using hvd::coll::Op;
using hvd::rt::FusionItem;
using hvd::rt::FusionPlanner;

namespace {

FusionItem item(std::size_t bytes, DataType type = DataType::f32, Op op = Op::allreduce) {
    return {.bytes = bytes, .kind = {.op = op, .type = type}};
}

using Groups = std::vector<std::vector<std::size_t>>;

/// The indices of the items of each group.
Groups plan_fusion(const std::vector<FusionItem>& items, std::size_t limit_bytes) {
    FusionPlanner planner(limit_bytes);
    Groups groups;
    for (std::size_t index = 0; index < items.size(); ++index) {
        const auto group = planner.place(items[index]);
        groups.resize(std::max(groups.size(), group + 1));
        groups[group].push_back(index);
    }
    return groups;
}

}  // namespace

TEST_CASE("tensors travel together up to the limit") {
    const std::vector items{item(40), item(40), item(30), item(20)};

    CHECK(plan_fusion(items, 100) == Groups{{0, 1}, {2, 3}});
}

TEST_CASE("a tensor above the limit travels alone, and one that fills it too") {
    const std::vector items{item(10), item(101), item(20), item(100)};

    CHECK(plan_fusion(items, 100) == Groups{{0, 2}, {1}, {3}});
}

TEST_CASE("limit 0 switches fusion off") {
    const std::vector items{item(0), item(4), item(4)};

    CHECK(plan_fusion(items, 0) == Groups{{0}, {1}, {2}});
}

TEST_CASE("kinds never mix, but look back for their own") {
    const std::vector items{item(8), item(8, DataType::f16), item(8),
                            item(8, DataType::f32, Op::broadcast)};

    CHECK(plan_fusion(items, 100) == Groups{{0, 2}, {1}, {3}});
}

TEST_CASE("scales, roots, divisors and what travels are part of the kind") {
    auto scaled = item(8);
    auto narrow = item(8);
    narrow.kind.wire = hvd::coll::Wire::f16;
    auto other_narrow = item(8);
    other_narrow.kind.wire = hvd::coll::Wire::bf16;
    scaled.kind.postscale = 0.5;
    auto divided = item(8);
    divided.kind.divisor = 2;
    auto other_divisor = divided;
    other_divisor.kind.divisor = 3;
    auto rooted = item(8, DataType::f32, Op::broadcast);
    auto other_root = rooted;
    other_root.kind.root = 1;
    const std::vector items{item(8), scaled,        rooted, other_root,
                            divided, other_divisor, narrow, other_narrow};

    CHECK(plan_fusion(items, 100).size() == 8);
}

TEST_CASE("what has no place of its own in the output travels alone") {
    const std::vector items{
        item(8, DataType::f32, Op::allgather),    item(8, DataType::f32, Op::allgather),
        item(0, DataType::f32, Op::barrier),      item(8, DataType::f32, Op::alltoall),
        item(8, DataType::f32, Op::alltoall),     item(8, DataType::f32, Op::reducescatter),
        item(8, DataType::f32, Op::reducescatter)};

    CHECK(plan_fusion(items, 100) == Groups{{0}, {1}, {2}, {3}, {4}, {5}, {6}});
}

TEST_CASE("sizes near the end of the range do not wrap") {
    const auto most = static_cast<std::size_t>(-1);
    const std::vector items{item(most), item(most), item(1)};

    CHECK(plan_fusion(items, most) == Groups{{0}, {1}, {2}});
}
