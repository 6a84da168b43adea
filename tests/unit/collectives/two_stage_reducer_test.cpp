// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/two_stage_reducer.hpp"

#include "collectives/algorithms/host_grid.hpp"
#include "collectives/reduce/half.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstdint>
#include <vector>

using hvd::coll::DataType;
using hvd::coll::HostGrid;
using hvd::coll::ReduceOp;
using hvd::coll::Task;
using hvd::coll::TwoStageReducer;

namespace {

std::byte* bytes_of(auto& value) {
    return reinterpret_cast<std::byte*>(&value);
}

hvd::coll::ProcessSet on_hosts(std::vector<int> hosts, int place) {
    hvd::coll::ProcessSet set{.id = 1, .ranks = {}, .place = place, .hosts = std::move(hosts)};
    for (std::size_t rank = 0; rank < set.hosts.size(); ++rank) {
        set.ranks.push_back(static_cast<int>(rank));
    }
    return set;
}

}  // namespace

TEST_CASE("halves are rounded once, after both stages") {
    const Task task{.reduce = ReduceOp::average, .type = DataType::f16, .postscale = 2};
    const TwoStageReducer reducer(task, 2, 4);
    // As f16, the first partial sum would be 2048, and the result 1024.
    std::array<std::uint16_t, 4> inputs{};
    const std::array values{2048.0F, 1.0F, 0.0625F, 0.0F};
    for (std::size_t index = 0; index < inputs.size(); ++index) {
        inputs.at(index) = hvd::coll::f32_to_f16(values.at(index));
    }
    std::array<float, 2> partials{};
    for (std::size_t host = 0; host < partials.size(); ++host) {
        const std::array<const std::byte*, 2> of_host{bytes_of(inputs.at(2 * host)),
                                                      bytes_of(inputs.at(2 * host + 1))};
        reducer.add_up(of_host, bytes_of(partials.at(host)), 1);
    }
    CHECK(partials == std::array{2049.0F, 0.0625F});
    std::uint16_t result = 0;
    const std::array parts{bytes_of(partials[0]), bytes_of(partials[1])};

    reducer.finish(parts, bytes_of(result), 1);

    CHECK(reducer.partial_bytes() == sizeof(float));
    CHECK(hvd::coll::f16_to_f32(result) == 1025);
}

TEST_CASE("an average of two stages divides by the task's divisor once") {
    const Task task{.reduce = ReduceOp::average, .prescale = 3, .divisor = 3};
    const TwoStageReducer reducer(task, 2, 4);
    std::array<float, 2> inputs{1, 4};
    std::array<float, 2> partials{0, 6};
    const std::array<const std::byte*, 2> both{bytes_of(inputs[0]), bytes_of(inputs[1])};
    reducer.add_up(both, bytes_of(partials[0]), 1);
    float result = 0;
    const std::array parts{bytes_of(partials[0]), bytes_of(partials[1])};

    reducer.finish(parts, bytes_of(result), 1);

    CHECK(partials[0] == 15);
    CHECK(result == 7);
}

TEST_CASE("what two stages would round or cut twice has one stage") {
    CHECK(TwoStageReducer::can({.reduce = ReduceOp::sum, .type = DataType::i32}));
    CHECK_FALSE(TwoStageReducer::can({.reduce = ReduceOp::average, .type = DataType::i32}));
    CHECK_FALSE(
        TwoStageReducer::can({.reduce = ReduceOp::sum, .type = DataType::i32, .prescale = 0.5}));
    CHECK(TwoStageReducer::can({.reduce = ReduceOp::max, .type = DataType::f16}));
    CHECK_FALSE(
        TwoStageReducer::can({.reduce = ReduceOp::max, .type = DataType::f16, .prescale = 3}));
    CHECK_FALSE(TwoStageReducer::can({.reduce = ReduceOp::adasum}));
}

TEST_CASE("a grid has a row for each host, in whatever order its members come") {
    const auto grid = HostGrid::of(on_hosts({7, 0, 7, 0, 0, 7}, 3));

    REQUIRE(grid);
    CHECK(grid->on_host() == std::vector<int>{1, 3, 4});
    CHECK(grid->column() == 1);
    CHECK(grid->across() == std::vector<int>{2, 3});
    CHECK(grid->host() == 1);
}

TEST_CASE("no grid where a host is alone, or has other numbers of members") {
    CHECK_FALSE(HostGrid::of(on_hosts({0, 0, 0}, 1)));
    CHECK_FALSE(HostGrid::of(on_hosts({0, 1, 2}, 1)));
    CHECK_FALSE(HostGrid::of(on_hosts({0, 0, 1}, 2)));
}
