// SPDX-License-Identifier: Apache-2.0
//
// A payload that travels in a proposal comes out as from the backend, to the bit.
#include "tests/integration/engine/engine_rank.hpp"
#include "tests/support/exact_data.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using hvd::coll::DataType;
using hvd::coll::Op;
using hvd::coll::ReduceOp;
using hvd::rt::Request;
using hvd::test::EngineRank;
using hvd::test::join_world;
using hvd::test::require;

namespace {

constexpr int kRanks = 3;

using Bytes = std::vector<std::byte>;

/// Values of all magnitudes whose sums depend on the order; integers are random bits.
Bytes random_input(DataType type, std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    Bytes bytes(count * hvd::coll::size_of(type));
    for (auto& byte : bytes) {
        byte = static_cast<std::byte>(random() & (type == DataType::boolean ? 1U : 0xffU));
    }
    // Neither an infinity nor a NaN: the second highest bit of an exponent is 0.
    const auto size = hvd::coll::size_of(type);
    for (std::size_t at = size - 1; at < bytes.size() && type >= DataType::f16; at += size) {
        bytes[at] &= std::byte{0xbf};
    }
    return bytes;
}

/// Runs the request, whose name is new, first by name, which the backend does, and then by its id;
/// throws where the results differ.
void compare(EngineRank& self, Request request, const Bytes& input, std::size_t result_bytes) {
    Bytes by_backend;
    for (int round = 0; round < 3; ++round) {
        Bytes in = input;
        request.in = in.data();
        std::vector<Request> requests{request};
        std::vector<hvd::rt::Operation*> operations;
        const auto outcome = hvd::test::value_or_throw(
            self.engine->run(requests, operations, hvd::Deadline::in(std::chrono::seconds(20))));
        require(outcome == hvd::rt::Outcome::finished, "the operation did not end");
        const auto* const out = operations.front()->out;
        const Bytes result(out, out + result_bytes);
        hvd::test::value_or_throw(self.tickets.release(*operations.front()));
        if (round == 0) {
            by_backend = result;
        }
        require(result == by_backend, "round " + std::to_string(round) + " of " + request.name);
    }
}

void compare_reductions(EngineRank& self,
                        DataType type,
                        ReduceOp reduce,
                        double factor,
                        std::size_t bytes) {
    const int rank = self.rank();
    const auto count = bytes / hvd::coll::size_of(type);
    Request request;
    request.name = "allreduce " + std::string(to_string(type)) + " " +
                   std::string(to_string(reduce)) + " " + std::to_string(factor) + " " +
                   std::to_string(bytes);
    request.signature = {.reduce = reduce,
                         .type = type,
                         .shape = {static_cast<std::int64_t>(count)},
                         .prescale = factor,
                         .postscale = 1 / factor};
    const auto input = random_input(type, count, static_cast<unsigned>(rank) + 1);
    compare(self, request, input, input.size());
    request.name += " scattered";
    request.signature.op = Op::reducescatter;
    const auto share = hvd::rt::share_of_rows(static_cast<std::int64_t>(count), rank, kRanks);
    compare(self, request, input, static_cast<std::size_t>(share) * hvd::coll::size_of(type));
}

/// The splits of a rank with so many rows: none for rank 1, and one row goes nowhere.
std::vector<std::int64_t> sent_by(int rank, std::size_t rows) {
    const auto all = static_cast<std::int64_t>(rows);
    return {std::min<std::int64_t>(rank, all), 0, std::max<std::int64_t>(all - rank - 1, 0)};
}

}  // namespace

TEST_CASE("a small reduction gives the same bits whether or not it travels in a proposal") {
    const auto socket = hvd::test::unique_socket_name();
    const auto ends = hvd::test::run_ranks(kRanks, [&](int rank) {
        const auto self = join_world(rank, kRanks, socket);
        for (const auto type : hvd::test::kAllTypes) {
            for (const auto reduce : hvd::test::kAllReduceOps) {
                if (type == DataType::boolean && reduce == ReduceOp::average) {
                    continue;
                }
                for (const double factor : {1.0, 0.3}) {
                    for (const std::size_t bytes : {60U, 4096U}) {
                        compare_reductions(*self, type, reduce, factor, bytes);
                    }
                }
            }
        }
        return 0;
    });

    CHECK(hvd::test::failures(ends) == "");
}

TEST_CASE("small copies and barriers are right whether or not they are carried") {
    const auto socket = hvd::test::unique_socket_name();
    const auto ends = hvd::test::run_ranks(kRanks, [&](int rank) {
        const auto self = join_world(rank, kRanks, socket);
        for (const std::size_t bytes : {0U, 1U, 40U, 41U, 64U, 65U, 4096U, 4097U}) {
            Request request;
            request.name = "allgather " + std::to_string(bytes);
            const auto rows = bytes / (static_cast<std::size_t>(rank) + 1);
            request.signature = {.op = Op::allgather,
                                 .type = DataType::u8,
                                 .shape = {static_cast<std::int64_t>(rows)}};
            compare(*self, request, random_input(DataType::u8, rows, 5),
                    bytes + bytes / 2 + bytes / 3);
            const auto splits = sent_by(rank, bytes);
            std::size_t received = 0;
            for (int from = 0; from < kRanks; ++from) {
                received +=
                    static_cast<std::size_t>(sent_by(from, bytes)[static_cast<std::size_t>(rank)]);
            }
            request.name = "alltoall " + std::to_string(bytes);
            request.signature = {.op = Op::alltoall,
                                 .type = DataType::u8,
                                 .shape = {static_cast<std::int64_t>(bytes)},
                                 .splits = splits};
            compare(*self, request, random_input(DataType::u8, bytes, static_cast<unsigned>(rank)),
                    received);
            for (int root = 0; root < kRanks; ++root) {
                request.name = "broadcast " + std::to_string(bytes) + " " + std::to_string(root);
                request.signature = {.op = Op::broadcast,
                                     .type = DataType::u8,
                                     .shape = {static_cast<std::int64_t>(bytes)},
                                     .root = root};
                compare(*self, request,
                        random_input(DataType::u8, bytes, static_cast<unsigned>(rank)), bytes);
            }
        }
        Request barrier;
        barrier.name = "barrier";
        barrier.signature.op = Op::barrier;
        compare(*self, barrier, {}, 0);
        return 0;
    });

    CHECK(hvd::test::failures(ends) == "");
}
