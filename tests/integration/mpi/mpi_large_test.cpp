// SPDX-License-Identifier: Apache-2.0
//
// More than an int of MPI can count: cases for the two ranks of one mpirun.
#include "collectives/mpi/factory.hpp"
#include "tests/integration/mpi/this_rank.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace hvd::test {
namespace {

using coll::Op;

constexpr std::size_t kMany = (std::size_t{1} << 31) + 4097;
constexpr std::chrono::seconds kLargeLimit{300};

/// No power of two is a period of it, so that misplaced data show.
[[nodiscard]] std::byte byte_at(int rank, std::size_t index) {
    return static_cast<std::byte>((index + static_cast<std::size_t>(rank) * 100) % 251);
}

void fill(std::span<std::byte> data, int rank) {
    for (std::size_t index = 0; index < data.size(); ++index) {
        data[index] = byte_at(rank, index);
    }
}

/// The first index at which the data are wrong; else their size.
template <class Expected>
[[nodiscard]] std::size_t first_wrong(std::span<const std::byte> data, Expected expected) {
    std::size_t index = 0;
    while (index < data.size() && data[index] == expected(index)) {
        ++index;
    }
    return index;
}

struct Rank {
    Rank() : Rank(value_of(this_rank_session().communicate(Deadline::in(kStartLimit)))) {}
    explicit Rank(coll::mpi::Communicator communicator)
        : rank(communicator.rank()), world(std::move(communicator), reactor) {}

    int rank;
    coll::Reactor reactor;
    MpiWorld world;
};

}  // namespace

TEST_CASE("mpi large: allreduce of more than 2^31 elements", "[.large]") {
    Rank self;
    std::vector<std::byte> data(kMany);
    fill(data, self.rank);

    run_to_end(*self.world,
               {.op = Op::allreduce,
                .reduce = coll::ReduceOp::max,
                .type = coll::DataType::u8,
                .segments = {{.in = data.data(), .out = data.data(), .count = kMany}}},
               kLargeLimit);

    CHECK(first_wrong(data, [](std::size_t index) {
              return std::max(byte_at(0, index), byte_at(1, index));
          }) == kMany);
    say_that_it_is_over();
}

TEST_CASE("mpi large: broadcast of more than 2^31 bytes", "[.large]") {
    Rank self;
    std::vector<std::byte> data(kMany);
    fill(data, self.rank);

    run_to_end(*self.world,
               {.op = Op::broadcast,
                .type = coll::DataType::u8,
                .root = 1,
                .segments = {{.in = data.data(), .out = data.data(), .count = kMany}}},
               kLargeLimit);

    CHECK(first_wrong(data, [](std::size_t index) { return byte_at(1, index); }) == kMany);
    say_that_it_is_over();
}

TEST_CASE("mpi large: allgather of more than 2^31 bytes in all", "[.large]") {
    Rank self;
    constexpr std::size_t kPart = kMany / 2 + 1;
    std::vector<std::byte> own(kPart);
    std::vector<std::byte> all(2 * kPart);
    fill(own, self.rank);

    run_to_end(
        *self.world,
        {.op = Op::allgather,
         .type = coll::DataType::u8,
         .segments =
             {{.in = own.data(), .out = all.data(), .count = kPart, .counts = {kPart, kPart}}}},
        kLargeLimit);

    CHECK(first_wrong(all, [](std::size_t index) {
              return byte_at(static_cast<int>(index / kPart), index % kPart);
          }) == all.size());
    say_that_it_is_over();
}

}  // namespace hvd::test
