// SPDX-License-Identifier: Apache-2.0
//
// What only MPI has, beyond the contract: cases for the ranks of one mpirun.
#include "collectives/mpi/factory.hpp"
#include "tests/integration/backend_contract/contract.hpp"
#include "tests/integration/mpi/this_rank.hpp"
#include "tests/support/exact_data.hpp"

#include <catch2/catch.hpp>

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
    const auto of_all = coll::mpi::create(std::move(all), reactor);
    const auto of_some = coll::mpi::create(std::move(some), reactor);
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

TEST_CASE("mpi: what is longer than a round arrives whole") {
    auto all = value_of(this_rank_session().communicate(Deadline::in(kStartLimit)));
    const int rank = all.rank();
    const int size = all.size();
    coll::Reactor reactor;
    const auto backend = coll::mpi::create(std::move(all), reactor);

    constexpr std::size_t kLong = (std::size_t{17} << 20) + 5;
    const auto of = [](int peer, std::size_t count) {
        std::vector<std::byte> data(count);
        for (std::size_t index = 0; index < count; ++index) {
            data[index] = pattern(peer, index);
        }
        return data;
    };
    auto data = of(rank, kLong);
    run_to_end(*backend, {.op = Op::broadcast,
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
    run_to_end(*backend, {.op = Op::allgather, .type = coll::DataType::u8, .segments = {parts}});
    REQUIRE(gathered == expected);
    say_that_it_is_over();
}

}  // namespace hvd::test
