// SPDX-License-Identifier: Apache-2.0
//
// Process sets beside each other and beside the world.
#include "tests/integration/engine/engine_rank.hpp"
#include "tests/integration/engine/gate.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

using hvd::rt::Operation;
using hvd::rt::Request;
using hvd::rt::TicketTable;
using hvd::test::add_set;
using hvd::test::allreduce;
using hvd::test::EngineRank;
using hvd::test::failures;
using hvd::test::Gate;
using hvd::test::join_world;
using hvd::test::require;
using hvd::test::run_ranks;
using hvd::test::run_thread_ranks;
using hvd::test::thread_world;
using hvd::test::unique_socket_name;

namespace {

/// The sum over a set, in place.
Request allreduce_of(int set, const std::string& name, std::span<float> data) {
    auto request = allreduce(name, data);
    request.process_set = set;
    return request;
}

const std::vector<std::vector<int>> kSets{{0, 1, 2, 3}, {0, 1}, {1, 2, 3}, {3, 0}, {2}};

/// Tensors of the same names in all sets of this rank, in another order on each rank.
void run_in_all_sets(EngineRank& self, const std::vector<int>& ids, int rounds) {
    constexpr int kNames = 5;
    std::mt19937 random(static_cast<unsigned>(self.rank()) + 1);
    struct Tensor {
        std::size_t set;
        int name;
        std::vector<float> data;
    };
    for (int round = 0; round < rounds; ++round) {
        std::vector<Tensor> tensors;
        for (std::size_t set = 0; set < kSets.size(); ++set) {
            for (int name = 0; name < kNames && std::ranges::count(kSets[set], self.rank()) != 0;
                 ++name) {
                const auto value = static_cast<float>(self.rank() + name + round);
                tensors.push_back({set, name, std::vector<float>(100, value)});
            }
        }
        std::ranges::shuffle(tensors, random);
        std::vector<Operation*> pending;
        for (auto& tensor : tensors) {
            const auto made = self.submit({allreduce_of(
                ids[tensor.set], "tensor." + std::to_string(tensor.name), tensor.data)});
            pending.insert(pending.end(), made.begin(), made.end());
        }
        self.finish(pending);
        for (const auto& tensor : tensors) {
            float sum = 0;
            for (const int rank : kSets[tensor.set]) {
                sum += static_cast<float>(rank + tensor.name + round);
            }
            require(std::ranges::count(tensor.data, sum) == 100,
                    "set " + std::to_string(tensor.set) + " tensor " + std::to_string(tensor.name) +
                        " is " + std::to_string(tensor.data[0]) + ", not " + std::to_string(sum));
        }
    }
}

std::vector<int> add_all_sets(EngineRank& self) {
    std::vector<int> ids{0};
    for (std::size_t set = 1; set < kSets.size(); ++set) {
        ids.push_back(add_set(self, kSets[set]));
    }
    return ids;
}

}  // namespace

TEST_CASE("overlapping sets agree beside each other, in any order, names being their own") {
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(4, [&](int rank) {
        const auto self = join_world(rank, 4, socket);
        run_in_all_sets(*self, add_all_sets(*self), 20);
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("sets of ranks that are threads, with a lock that changes hands at every step") {
    const bool force = GENERATE(false, true);
    CAPTURE(force);
    auto world = thread_world(4, {.force_hand_over = force});

    const auto failed = run_thread_ranks(4, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        run_in_all_sets(self, add_all_sets(self), 5);
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("a set's ranks finish 1,000 operations while they wait in the world for another rank") {
    const auto socket = unique_socket_name();
    const Gate finished;

    const auto ends = run_ranks(3, [&](int rank) {
        const auto self = join_world(rank, 3, socket);
        const int set = add_set(*self, {0, 1});
        std::vector<float> everybody(10, 1);
        self->run({allreduce("world", everybody)});
        std::ranges::fill(everybody, 1.0F);
        if (rank == 2) {
            finished.await(2);  // asleep, as far as the others are concerned
            self->run({allreduce("world", everybody)});
            require(everybody.front() == 3, "the world's sum");
            return 0;
        }
        std::jthread blocked([&] { self->run({allreduce("world", everybody)}); });
        std::vector<float> data(10);
        for (int round = 0; round < 1000; ++round) {
            std::ranges::fill(data, static_cast<float>(round + rank));
            self->run({allreduce_of(set, "pair." + std::to_string(round % 7), data)});
            require(data.front() == static_cast<float>(2 * round + 1), "the pair's sum");
        }
        finished.arrive();
        blocked.join();
        require(everybody.front() == 3, "the world's sum");
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("a few bytes in one set do not wait for 64 MiB in another one") {
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(3, [&](int rank) {
        const auto self = join_world(rank, 3, socket);
        const int heavy = add_set(*self, {0, 1});
        const int light = add_set(*self, {0, 2});
        std::vector<float> large(rank == 2 ? 0 : std::size_t{16} << 20, 1);
        std::vector<float> small(1, 1);
        bool has_overtaken = false;
        for (int round = 0; round < 4; ++round) {
            std::vector<float> start(1);
            self->run({allreduce("start", start)});
            std::vector<Operation*> pending;
            if (rank != 2) {
                pending = self->submit({allreduce_of(heavy, "large", large)});
            }
            if (rank != 1) {
                small.front() = 1;
                self->run({allreduce_of(light, "small", small)});
                require(small.front() == 2, "the small sum");
            }
            has_overtaken = has_overtaken || (rank == 0 && !TicketTable::is_done(*pending.front()));
            self->finish(pending);
        }
        require(rank != 0 || has_overtaken, "the small one has always waited");
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("a member that is late in its set holds up no other set of the ranks that wait") {
    const auto socket = unique_socket_name();
    const Gate finished;

    const auto ends = run_ranks(3, [&](int rank) {
        const auto self = join_world(rank, 3, socket);
        const int waiting = add_set(*self, {0, 1});
        const int other = add_set(*self, {0, 2});
        std::vector<float> data(1000, 1);
        std::vector<float> late(1000, 1);
        std::vector<Operation*> pending;
        if (rank == 0) {
            pending = self->submit({allreduce_of(waiting, "late", late)});
        }
        if (rank == 1) {
            finished.await(2);
            pending = self->submit({allreduce_of(waiting, "late", late)});
        } else {
            for (int round = 0; round < 50; ++round) {
                self->run({allreduce_of(other, "x", data)});
            }
            finished.arrive();
        }
        self->finish(pending);
        require(rank == 2 || late.front() == 2, "the late sum");
        self->run({allreduce("end", data)});
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("what an outsider submits is refused at the call, and harms nobody") {
    auto world = thread_world(2);

    const auto failed = run_thread_ranks(2, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        const int set = add_set(self, {0});
        std::vector<float> data(4, 1);
        std::vector<Request> requests{allreduce("fine", data), allreduce_of(set, "x", data)};
        const auto submitted = self.engine->submit(requests);
        require(submitted.has_value() == (rank == 0), "who may submit");
        if (rank == 1) {
            require(
                submitted.error().message == "tensor 'x': rank 1 is not a member of process set " +
                                                 std::to_string(set) + ", whose member is rank 0",
                submitted.error().message);
            std::vector<Request> unknown{allreduce_of(99, "x", data)};
            require(self.engine->submit(unknown).error().message ==
                        "tensor 'x': there is no process set 99",
                    "unknown");
            self.run({allreduce("fine", data)});
        } else {
            self.finish(*submitted);
        }
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("a set fills the log over and over while an outsider sleeps") {
    const auto socket = unique_socket_name();
    constexpr std::size_t kNames = 50;
    constexpr int kRounds = 250;  // 12,500 entries: three times what the log holds
    const Gate finished;

    const auto ends = run_ranks(3, [&](int rank) {
        const auto self = join_world(rank, 3, socket);
        const int set = add_set(*self, {0, 1});
        if (rank == 2) {
            finished.await(2);
        } else {
            std::vector<float> data(kNames);
            for (int round = 0; round < kRounds; ++round) {
                std::ranges::fill(data, 1.0F);
                std::vector<Request> requests;
                for (std::size_t name = 0; name < kNames; ++name) {
                    requests.push_back(
                        allreduce_of(set, std::to_string(name), std::span(data).subspan(name, 1)));
                }
                self->run(std::move(requests));
                require(std::ranges::count(data, 2.0F) == kNames, "a sum is wrong");
            }
            finished.arrive();
        }
        std::vector<float> all(1, 1);
        self->run({allreduce("world", all)});
        require(all.front() == 3, "the world's sum");
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("counters tell operations by name, by bit and what has travelled") {
    auto world = thread_world(2);

    const auto failed = run_thread_ranks(2, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        const int set = add_set(self, {0});
        std::vector<float> data(25, 1);
        const auto before = self.engine->counters();
        for (int round = 0; round < 4; ++round) {
            self.run({allreduce("x", data)});
            if (rank == 0) {
                self.run({allreduce_of(set, "x", data)});
            }
        }
        const auto after = self.engine->counters();
        const std::uint64_t sets = rank == 0 ? 2 : 1;
        require(after.submitted - before.submitted == 4 * sets, "submitted");
        require(after.completed - before.completed == 4 * sets, "completed");
        require(after.agreed_by_name - before.agreed_by_name == sets, "by name");
        require(after.agreed_by_bit - before.agreed_by_bit == 3 * sets, "by bit");
        require(after.collectives - before.collectives == 4 * sets, "collectives");
        require(after.collective_bytes - before.collective_bytes == 400 * sets, "bytes");
        return 0;
    });

    CHECK(failed == "");
}
