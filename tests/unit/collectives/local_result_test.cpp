// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/local_result.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvd::coll {
namespace {

using Numbers = std::vector<std::int32_t>;

/// Two segments of three members; each member's inputs in a row.
const std::vector<Numbers> kInputs{{1, 2, 3, 4, 5, 6},
                                   {10, 20, 30, 40, 50, 60},
                                   {100, 200, 300, 400, 500, 600}};

/// The result of the member at `place` of segments of `counts` elements: outputs in a row.
Numbers result_at(int place, Task task, const std::vector<Numbers>& inputs, Numbers out) {
    std::vector<const std::byte*> addresses;
    for (const auto& input : inputs) {
        addresses.push_back(reinterpret_cast<const std::byte*>(input.data()));
    }
    task.type = DataType::i32;
    auto* to = reinterpret_cast<std::byte*>(out.data());
    const auto* in = addresses[static_cast<std::size_t>(place)];
    for (auto& segment : task.segments) {
        segment.in = in;
        segment.out = to;
        in = in == nullptr ? in : in + segment.count * sizeof(std::int32_t);
        std::size_t elements = segment.count;
        if (task.op == Op::reducescatter) {
            elements = segment.counts[static_cast<std::size_t>(place)];
        } else if (task.op == Op::allgather || task.op == Op::alltoall) {
            elements = 0;
            for (const auto count : segment.counts) {
                elements += count;
            }
        }
        to += elements * sizeof(std::int32_t);
    }
    LocalResult(task, static_cast<int>(inputs.size())).write(task, place, addresses);
    return out;
}

TEST_CASE("every member makes of all inputs what an allreduce gives") {
    const Task task{.op = Op::allreduce, .segments = {{.count = 2}, {.count = 4}}};
    for (const int place : {0, 1, 2}) {
        CHECK(result_at(place, task, kInputs, Numbers(6)) == Numbers{111, 222, 333, 444, 555, 666});
    }
    Task average = task;
    average.reduce = ReduceOp::average;
    CHECK(result_at(1, average, kInputs, Numbers(6)) == Numbers{37, 74, 111, 148, 185, 222});
}

TEST_CASE("every member gets its own share of a reducescatter, segment by segment") {
    const Task task{
        .op = Op::reducescatter,
        .segments = {{.count = 4, .counts = {2, 1, 1}}, {.count = 2, .counts = {1, 1, 0}}}};

    CHECK(result_at(0, task, kInputs, Numbers(3)) == Numbers{111, 222, 555});
    CHECK(result_at(1, task, kInputs, Numbers(2)) == Numbers{333, 666});
    CHECK(result_at(2, task, kInputs, Numbers(1)) == Numbers{444});
}

TEST_CASE("every member gathers parts of different length, segment by segment") {
    const std::vector<Numbers> inputs{{1, 2, 3}, {10}, {100, 200}};
    for (const int place : {0, 1, 2}) {
        const auto at = static_cast<std::size_t>(place);
        const std::vector<std::size_t> first{2, 0, 1};
        const std::vector<std::size_t> second{1, 1, 1};
        const Task task{.op = Op::allgather,
                        .segments = {{.count = first[at], .counts = first},
                                     {.count = second[at], .counts = second}}};
        CHECK(result_at(place, task, inputs, Numbers(6)) == Numbers{1, 2, 100, 3, 10, 200});
    }
}

TEST_CASE("every member receives the parts for it that the inputs of an alltoall begin with") {
    const Task task{.op = Op::alltoall,
                    .segments = {{.count = 6, .counts = {2, 0, 3}, .send_counts = {1, 2, 3}}}};
    CHECK(result_at(1, task, kInputs, Numbers(5)) == Numbers{1, 2, 100, 200, 300});
}

TEST_CASE("every member receives what the root of a broadcast has put in") {
    const std::vector<Numbers> inputs{{}, {10, 20, 30}, {}};
    const Task task{.op = Op::broadcast, .root = 1, .segments = {{.count = 1}, {.count = 2}}};
    for (const int place : {0, 1, 2}) {
        CHECK(result_at(place, task, inputs, Numbers(3)) == Numbers{10, 20, 30});
    }
}

TEST_CASE("a barrier reads and writes nothing") {
    const Task task{.op = Op::barrier};
    CHECK(result_at(0, task, {{}, {}}, {7}) == Numbers{7});
}

}  // namespace
}  // namespace hvd::coll
