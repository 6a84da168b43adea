// SPDX-License-Identifier: Apache-2.0
//
// Ranks with loops of different lengths.
#include "tests/integration/engine/engine_rank.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

using hvd::Exception;
using hvd::coll::Op;
using hvd::coll::ReduceOp;
using hvd::rt::Request;
using hvd::test::add_set;
using hvd::test::allreduce;
using hvd::test::EngineRank;
using hvd::test::failures;
using hvd::test::join;
using hvd::test::join_world;
using hvd::test::require;
using hvd::test::run_ranks;
using hvd::test::run_thread_ranks;
using hvd::test::thread_world;
using hvd::test::unique_socket_name;

namespace {

/// Steps of a rank, and those whose step `step` has tensors of their own.
int steps_of(int rank) {
    return 4 + 3 * rank;
}

int contributors(int step, int size) {
    int count = 0;
    for (int rank = 0; rank < size; ++rank) {
        count += step < steps_of(rank) ? 1 : 0;
    }
    return count;
}

void require_equal(float value, float expected, const std::string& what) {
    require(value == expected,
            what + " is " + std::to_string(value) + ", not " + std::to_string(expected));
}

/// A loop whose length is the rank's own, with every kind of reduction.
void run_uneven_loop(EngineRank& self) {
    const int size = self.size();
    for (int step = 0; step < steps_of(self.rank()); ++step) {
        std::vector<float> sum(20, 6);
        std::vector<float> over_all(20, 6);
        std::vector<float> over_some(20, 6);
        std::vector<float> rounded(20, 6 + 0x1p-12F);
        std::vector<float> least(20, 5);
        std::vector<float> product(20, 2);
        auto some = allreduce("over some", over_some, ReduceOp::average);
        some.signature.over_contributing = true;
        auto half = allreduce("rounded", rounded, ReduceOp::average);
        half.signature.over_contributing = true;
        half.signature.wire = hvd::coll::Wire::f16;
        self.run({half, allreduce("sum", sum), allreduce("over all", over_all, ReduceOp::average),
                  some, allreduce("least", least, ReduceOp::min),
                  allreduce("product", product, ReduceOp::product)});
        const int count = contributors(step, size);
        require_equal(sum.front(), static_cast<float>(6 * count), "the sum");
        require_equal(over_all.back(), static_cast<float>(6 * count) / static_cast<float>(size),
                      "the average");
        require_equal(over_some.front(), 6, "the average over those that contribute");
        require_equal(rounded.back(), 6, "the same of what is rounded on the way");
        require_equal(least.front(), 5, "the least");
        require_equal(product.front(), static_cast<float>(1 << count), "the product");
    }
}

}  // namespace

TEST_CASE("ranks that have joined contribute nothing, and the others go on") {
    const int size = GENERATE(1, 2, 3, 4);
    CAPTURE(size);
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(size, [&](int rank) {
        const auto self = join_world(rank, size, socket);
        for (int epoch = 0; epoch < 3; ++epoch) {
            run_uneven_loop(*self);
            const int last = join(*self);
            require(last == size - 1, "the last rank is not " + std::to_string(last));
        }
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("a loop of asynchronous groups in a random pace, with a join at its end") {
    constexpr int kSize = 3;
    auto world = thread_world(kSize, {.force_hand_over = GENERATE(false, true)});

    const auto failed = run_thread_ranks(kSize, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        for (int epoch = 0; epoch < 5; ++epoch) {
            for (int step = 0; step < steps_of(rank); ++step) {
                std::vector<float> a(3, 1);
                std::vector<float> b(700, 1);
                std::vector<Request> requests{allreduce("a", a), allreduce("b", b)};
                requests[0].group = 1;
                requests[1].group = 1;
                const auto pending = self.submit(std::move(requests));
                if ((step + rank + epoch) % 4 == 0) {
                    std::this_thread::yield();
                }
                self.finish(pending);
                require_equal(a.back(), static_cast<float>(contributors(step, kSize)), "a");
                require_equal(b.back(), static_cast<float>(contributors(step, kSize)), "b");
            }
            require(join(self) == kSize - 1, "the last rank");
        }
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("sets of ranks that have not joined go on, and so do those that one has joined in") {
    constexpr int kSize = 3;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket);
        const int without = add_set(*self, {0, 1});
        const int with = add_set(*self, {1, 2});
        std::vector<float> data(50);
        const auto run = [&](int set, float expected) {
            std::ranges::fill(data, 1.0F);
            auto request = allreduce("x", data);
            request.process_set = set;
            self->run({request});
            require_equal(data.back(), expected, "the sum of set " + std::to_string(set));
        };
        for (int epoch = 0; epoch < 3; ++epoch) {
            if (rank != 0) {
                run(with, 2);
            }
            for (int step = 0; step < 10 && rank != 2; ++step) {
                run(without, 2);
            }
            for (int step = 0; step < 5 && rank == 1; ++step) {
                run(with, 1);
            }
            (void)join(*self);
            run(0, 3);
        }
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("what needs a tensor of every rank fails once one has joined, and harms nothing") {
    const auto op = GENERATE(Op::allgather, Op::broadcast, Op::alltoall, Op::reducescatter);
    CAPTURE(to_string(op));
    auto world = thread_world(2);

    const auto failed = run_thread_ranks(2, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        if (rank == 0) {
            std::vector<float> data(4, 1);
            auto request = allreduce("x", data);
            request.signature.op = op;
            request.has_out = false;
            std::string message;
            try {
                self.run({request});
            } catch (const Exception& exception) {
                message = exception.error().message;
            }
            require(message == "tensor 'x': " + std::string(to_string(op)) +
                                   " needs a tensor of every rank, but rank 1 has joined",
                    message);
            self.run({allreduce("y", data)});
            require_equal(data.front(), 1, "the sum of one");
        }
        require(join(self) == 0, "the last rank");
        std::vector<float> data(4, 1);
        self.run({allreduce("z", data)});
        require_equal(data.front(), 2, "the sum of two");
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("requests after a join wait for its end, also when callers await them") {
    auto world = thread_world(2);

    const auto failed = run_thread_ranks(2, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        for (int epoch = 0; epoch < 20; ++epoch) {
            std::vector<float> data(10, 1);
            Request request;
            request.name = "join";
            request.has_out = true;
            request.signature.kind = hvd::rt::Kind::join;
            const auto pending = self.submit({request});
            self.run({allreduce("x", data)});
            require(hvd::rt::TicketTable::is_done(*pending.front()), "the join has not ended");
            require_equal(data.front(), 2, "the sum");
            self.finish(pending);
        }
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("barriers need no rank that has joined") {
    auto world = thread_world(3);

    const auto failed = run_thread_ranks(3, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        for (int step = 0; step < rank; ++step) {
            Request barrier;
            barrier.name = "barrier";
            barrier.has_out = true;
            barrier.signature.op = Op::barrier;
            self.run({barrier});
        }
        return join(self) == 2 ? 0 : 1;
    });

    CHECK(failed == "");
}
