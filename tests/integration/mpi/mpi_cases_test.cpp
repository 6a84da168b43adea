// SPDX-License-Identifier: Apache-2.0
//
// Cases for the ranks of one mpirun that only MPI has, beyond the contract.
#include "collectives/mpi/factory.hpp"
#include "collectives/reduce/half.hpp"
#include "tests/integration/backend_contract/contract.hpp"
#include "tests/integration/mpi/this_rank.hpp"
#include "tests/support/exact_data.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace hvd::test {
namespace {

using coll::Op;
using coll::Task;

}  // namespace

TEST_CASE("mpi: a communicator of some ranks does not disturb that of all") {
    auto all = value_of(this_rank_session().communicate(Deadline::in(kStartLimit)));
    const int rank = all.rank();
    const int size = all.size();
    std::vector<int> alike;  // those with an even number, or those with an odd one
    for (int peer = rank % 2; peer < size; peer += 2) {
        alike.push_back(peer);
    }
    coll::Reactor reactor;
    auto some = value_of(all.subset(alike, 7 + rank % 2, Deadline::in(kStartLimit)));
    REQUIRE(some.size() == static_cast<int>(alike.size()));
    REQUIRE(alike[static_cast<std::size_t>(some.rank())] == rank);
    const MpiWorld of_all(std::move(all), reactor);
    const MpiWorld of_some(std::move(some), reactor);
    float expected = 0;
    for (const int peer : alike) {
        expected += static_cast<float>(peer);
    }

    for (int round = 0; round < 20; ++round) {
        std::vector<float> data(5000, static_cast<float>(rank));
        auto* const bytes = reinterpret_cast<std::byte*>(data.data());
        const Task sum{.op = Op::allreduce,
                       .segments = {{.in = bytes, .out = bytes, .count = data.size()}}};

        run_to_end(*of_some, sum);
        REQUIRE(data == std::vector<float>(data.size(), expected));

        data.assign(data.size(), 1);
        run_to_end(*of_all, sum);
        REQUIRE(data == std::vector<float>(data.size(), static_cast<float>(size)));
    }
    say_that_it_is_over();
}

namespace {

/// The sum of `data` of each rank, as the first of as many equal elements as the tensor has.
std::uint16_t half_sum(coll::Communicator& communicator,
                       Task task,
                       std::uint16_t own,
                       std::size_t count) {
    std::vector<std::uint16_t> data(count, own);
    auto* const bytes = reinterpret_cast<std::byte*>(data.data());
    // Pieces, one of which has an odd number of elements.
    const auto first = std::min<std::size_t>(count, 3);
    task.segments = {
        {.in = bytes, .out = bytes, .count = first},
        {.in = bytes + 2 * first, .out = bytes + 2 * first, .count = count - first},
    };
    run_to_end(communicator, task);
    REQUIRE(data == std::vector<std::uint16_t>(count, data.front()));
    return data.front();
}

}  // namespace

// Sixteen ranks.
TEST_CASE("mpi halves: MPI adds up in its own order and rounds once") {
    auto all = value_of(this_rank_session().communicate(Deadline::in(kStartLimit)));
    const int rank = all.rank();
    REQUIRE(all.size() == 16);
    std::vector<int> everybody(16);
    std::iota(everybody.begin(), everybody.end(), 0);
    coll::Reactor reactor;
    auto other = value_of(all.subset(everybody, 3, Deadline::in(kStartLimit)));
    const MpiWorld in_order(std::move(other), reactor);
    const MpiWorld by_mpi(std::move(all), reactor, coll::SumOrder::any);

    const auto count =
        GENERATE(std::size_t{1}, std::size_t{5}, std::size_t{3000}, std::size_t{8192});
    CAPTURE(rank, count);
    Task sum{.op = Op::allreduce, .type = coll::DataType::f16};

    // 16 bits hold only even numbers above 2048: adding 1, however often, would change nothing.
    const float own = rank == 0 ? 2048.0F : 1.0F;
    CHECK(half_sum(*by_mpi, sum, coll::f32_to_f16(own), count) == coll::f32_to_f16(2064));
    sum.type = coll::DataType::bf16;  // only multiples of 16
    const float large = rank == 0 ? 2048.0F : 2.0F;
    CHECK(half_sum(*by_mpi, sum, coll::f32_to_bf16(large), count) == coll::f32_to_bf16(2080));

    // In rank order each of the small ones is lost beside 2049, which then rounds down; together
    // they are not.
    sum.type = coll::DataType::f16;
    const auto uneven = coll::f32_to_f16(rank == 0 ? 2048.0F : rank == 1 ? 1.0F : 0x1p-13F);
    CHECK(half_sum(*in_order, sum, uneven, count) == coll::f32_to_f16(2048));
    CHECK(half_sum(*by_mpi, sum, uneven, count) == coll::f32_to_f16(2050));

    sum.reduce = coll::ReduceOp::average;
    sum.prescale = 2;
    sum.postscale = 0.5;
    CHECK(half_sum(*by_mpi, sum, coll::f32_to_f16(static_cast<float>(rank)), count) ==
          coll::f32_to_f16(7.5F));
    Task least{.op = Op::allreduce, .reduce = coll::ReduceOp::min, .type = coll::DataType::bf16};
    CHECK(half_sum(*by_mpi, least, coll::f32_to_bf16(static_cast<float>(3 - rank)), count) ==
          coll::f32_to_bf16(-12));
    const auto nan = std::uint16_t{0x7fc0};
    const std::uint16_t signed_nan = rank % 2 == 0 ? 0x7fc1 : 0xffc2;  // which partners may swap
    CHECK(half_sum(*by_mpi, {.op = Op::allreduce, .type = coll::DataType::bf16}, signed_nan,
                   count) == nan);
    CHECK(half_sum(*by_mpi, least, rank == 5 ? nan : coll::f32_to_bf16(1), count) == nan);
    least.reduce = coll::ReduceOp::product;
    CHECK(half_sum(*by_mpi, least, coll::f32_to_bf16(rank % 4 == 0 ? 2 : -1), count) ==
          coll::f32_to_bf16(16));
    say_that_it_is_over();
}

TEST_CASE("mpi: what is longer than a round arrives whole") {
    auto all = value_of(this_rank_session().communicate(Deadline::in(kStartLimit)));
    const int rank = all.rank();
    const int size = all.size();
    coll::Reactor reactor;
    const MpiWorld world(std::move(all), reactor);

    constexpr std::size_t kLong = (std::size_t{17} << 20) + 5;
    const auto of = [](int peer, std::size_t count) {
        std::vector<std::byte> data(count);
        for (std::size_t index = 0; index < count; ++index) {
            data[index] = pattern(peer, index);
        }
        return data;
    };
    auto data = of(rank, kLong);
    run_to_end(*world, {.op = Op::broadcast,
                        .type = coll::DataType::u8,
                        .root = size - 1,
                        .segments = {{.in = data.data(), .out = data.data(), .count = kLong}}});
    REQUIRE(data == of(size - 1, kLong));

    // Each rank's part ends in another round.
    coll::Segment parts;
    std::vector<std::byte> expected;
    for (int peer = 0; peer < size; ++peer) {
        parts.counts.push_back(kLong / static_cast<std::size_t>(peer + 1));
        const auto part = of(peer, parts.counts.back());
        expected.insert(expected.end(), part.begin(), part.end());
    }
    parts.count = parts.counts[static_cast<std::size_t>(rank)];
    const auto own = of(rank, parts.count);
    std::vector<std::byte> gathered(expected.size());
    parts.in = own.data();
    parts.out = gathered.data();
    run_to_end(*world, {.op = Op::allgather, .type = coll::DataType::u8, .segments = {parts}});
    REQUIRE(gathered == expected);
    say_that_it_is_over();
}

}  // namespace hvd::test
