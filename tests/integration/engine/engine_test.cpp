// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/engine/engine_rank.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

using hvd::Deadline;
using hvd::Errc;
using hvd::coll::Op;
using hvd::rt::Operation;
using hvd::rt::Request;
using hvd::test::allreduce;
using hvd::test::EngineRank;
using hvd::test::failures;
using hvd::test::join_world;
using hvd::test::require;
using hvd::test::run_ranks;
using hvd::test::run_thread_ranks;
using hvd::test::thread_world;
using hvd::test::unique_socket_name;

namespace {

/// Small whole numbers that tell rank, tensor and element.
float input(int rank, std::size_t tensor, std::size_t element) {
    return static_cast<float>((static_cast<std::size_t>(rank) * 3 + tensor + element) % 17);
}

float sum(int size, std::size_t tensor, std::size_t element) {
    float total = 0;
    for (int rank = 0; rank < size; ++rank) {
        total += input(rank, tensor, element);
    }
    return total;
}

/// Named tensors of one rank.
class Tensors {
public:
    Tensors(std::size_t count, std::size_t elements) : data_(count, std::vector<float>(elements)) {}

    void fill(int rank) {
        for (std::size_t tensor = 0; tensor < data_.size(); ++tensor) {
            for (std::size_t element = 0; element < data_[tensor].size(); ++element) {
                data_[tensor][element] = input(rank, tensor, element);
            }
        }
    }

    [[nodiscard]] Request request(std::size_t tensor) {
        return allreduce("tensor." + std::to_string(tensor), data_[tensor]);
    }

    void require_sums(int size) const {
        for (std::size_t tensor = 0; tensor < data_.size(); ++tensor) {
            for (std::size_t element = 0; element < data_[tensor].size(); ++element) {
                require(data_[tensor][element] == sum(size, tensor, element),
                        "tensor " + std::to_string(tensor) + " element " + std::to_string(element) +
                            " is " + std::to_string(data_[tensor][element]));
            }
        }
    }

private:
    std::vector<std::vector<float>> data_;
};

/// All tensors in an order of this rank's own, `rounds` times.
void run_shuffled(EngineRank& self, std::size_t count, int rounds, std::size_t pieces) {
    Tensors tensors(count, 5);
    std::mt19937 random(static_cast<unsigned>(self.rank()) + 1);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int round = 0; round < rounds; ++round) {
        tensors.fill(self.rank());
        std::ranges::shuffle(order, random);
        std::vector<Operation*> pending;
        for (std::size_t from = 0; from < count; from += pieces) {
            std::vector<Request> requests;
            for (std::size_t index = from; index < std::min(from + pieces, count); ++index) {
                requests.push_back(tensors.request(order[index]));
            }
            const auto operations = self.submit(std::move(requests));
            pending.insert(pending.end(), operations.begin(), operations.end());
        }
        self.finish(pending);
        tensors.require_sums(self.size());
    }
}

}  // namespace

TEST_CASE("every rank gets the sum, at any number of ranks") {
    const int size = GENERATE(1, 2, 3, 4, 7);
    CAPTURE(size);
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(size, [&](int rank) {
        const auto self = join_world(rank, size, socket);
        for (const std::size_t elements :
             {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{20'000}}) {
            Tensors tensors(3, elements);
            for (int round = 0; round < 3; ++round) {
                tensors.fill(rank);
                self->run({tensors.request(0), tensors.request(1), tensors.request(2)});
                tensors.require_sums(size);
            }
        }
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE(
    "1,000 names in another random order on each of 4 ranks, and no string in a steady step") {
    constexpr int kSize = 4;
    constexpr std::size_t kNames = 1000;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket);
        run_shuffled(*self, kNames, 1, 7);
        const auto first = self->engine->counters();
        require(first.agreed_by_name == kNames && first.agreed_by_bit == 0,
                "by name: " + std::to_string(first.agreed_by_name));
        run_shuffled(*self, kNames, 3, 13);
        const auto steady = self->engine->counters();
        require(steady.names_bytes == first.names_bytes, "strings crossed in a steady step");
        require(steady.agreed_by_bit == 3 * kNames,
                "by bit: " + std::to_string(steady.agreed_by_bit));
        require(steady.completed == 4 * kNames, "not all operations were counted");
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("one at a time in opposite orders, waiting only at the end") {
    constexpr int kSize = 2;
    constexpr std::size_t kNames = 64;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket);
        for (int round = 0; round < 20; ++round) {
            Tensors tensors(kNames, 3);
            tensors.fill(rank);
            std::vector<Operation*> pending;
            for (std::size_t index = 0; index < kNames; ++index) {
                const auto tensor = rank == 0 ? index : kNames - 1 - index;
                pending.push_back(self->submit({tensors.request(tensor)}).front());
            }
            self->finish(pending);
            tensors.require_sums(kSize);
        }
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("what arrives while a collective is in flight travels together") {
    constexpr int kSize = 2;
    constexpr std::size_t kSmall = 200;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket);
        std::vector<float> large(std::size_t{1} << 24);  // outlasts the submitting
        run_shuffled(*self, kSmall, 1, kSmall);
        self->run({allreduce("large", large)});
        const auto before = self->engine->counters();
        auto pending = self->submit({allreduce("large", large)});
        Tensors tensors(kSmall, 5);
        tensors.fill(rank);
        for (std::size_t tensor = 0; tensor < kSmall; ++tensor) {
            pending.push_back(self->submit({tensors.request(tensor)}).front());
        }
        self->finish(pending);
        const auto after = self->engine->counters();
        require(after.collectives - before.collectives < kSmall / 2,
                std::to_string(after.collectives - before.collectives) + " collectives");
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("a tensor may change its shape, with the old name cached on other ranks") {
    constexpr int kSize = 3;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket);
        for (std::size_t round = 0; round < 60; ++round) {
            Tensors tensors(4, 1 + round % 3);
            tensors.fill(rank);
            // Rank 0 is at the next shape while the others still use the cache ids of the last one.
            self->run(
                {tensors.request(0), tensors.request(1), tensors.request(2), tensors.request(3)});
            tensors.require_sums(kSize);
        }
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("a small cache forgets the oldest names and stays right") {
    const std::size_t capacity = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{5});
    CAPTURE(capacity);
    constexpr int kSize = 2;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket, {.cache_capacity = capacity});
        run_shuffled(*self, 40, 10, 3);
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("decisions of any length reach a rank that sleeps") {
    const bool is_group = GENERATE(true, false);
    CAPTURE(is_group);
    constexpr int kSize = 2;
    constexpr std::size_t kNames = 1500;  // more than the rings of shared memory hold
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket);
        std::vector<float> data(kNames, 1);
        std::vector<Request> requests;
        for (std::size_t index = 0; index < kNames; ++index) {
            requests.push_back(allreduce(std::string(100, 'x') + std::to_string(index),
                                         std::span(data).subspan(index, 1)));
            requests.back().group = is_group ? 1 : 0;
        }
        if (rank == 0) {
            ::usleep(200'000);
        }
        self->run(std::move(requests));
        require(std::ranges::count(data, 2.0F) == kNames, "a sum is wrong");
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("a name that changes does not hold up what is new beside it") {
    constexpr int kSize = 2;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket);
        for (int round = 0; round < 20; ++round) {
            std::vector<float> data(5, 1);
            const auto fresh = allreduce("fresh." + std::to_string(round), data);
            std::vector<float> part(4, 1);
            auto rows = allreduce("rows", part);
            rows.signature.op = Op::allgather;
            rows.has_out = false;
            rows.out = nullptr;
            self->run({rows});
            if (rank == 0) {
                self->run({fresh});
                self->run({rows});
            } else {
                rows.signature.shape = {3};
                ::usleep(20'000);  // rank 0 waits already
                self->finish(self->submit({fresh, rows}));
            }
            require(data.front() == 2, "sum");
        }
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("the fusion threshold of rank 0 counts") {
    constexpr int kSize = 2;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self =
            join_world(rank, kSize, socket,
                       {.fusion_bytes = rank == 0 ? std::optional<std::size_t>(0) : std::nullopt});
        for (int round = 0; round < 3; ++round) {
            Tensors tensors(2, 5);
            tensors.fill(rank);
            const auto before = self->engine->counters().collectives;
            self->run({tensors.request(0), tensors.request(1)});
            tensors.require_sums(kSize);
            require(self->engine->counters().collectives - before == 2, "they travelled together");
        }
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("the progress lock may change hands at every step") {
    constexpr int kSize = 3;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket, {.force_hand_over = true});
        run_shuffled(*self, 30, 10, 4);
        require(self->engine->counters().caller_progress > 0, "no caller ever made progress");
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("several threads of a rank submit and wait at once") {
    constexpr int kSize = 3;
    constexpr int kThreads = 3;
    const bool force = GENERATE(false, true);
    CAPTURE(force);
    auto world = thread_world(kSize, {.force_hand_over = force});

    const auto failed = run_thread_ranks(kSize, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        std::atomic<int> wrong{0};
        std::vector<std::jthread> threads;
        threads.reserve(kThreads);
        for (int thread = 0; thread < kThreads; ++thread) {
            threads.emplace_back([&, thread] {
                std::vector<float> data(100);
                for (int round = 0; round < 50; ++round) {
                    std::ranges::fill(data, static_cast<float>(rank + round));
                    self.run({allreduce("thread." + std::to_string(thread), data)});
                    const auto expected = static_cast<float>(3 * round + 3);
                    wrong += static_cast<int>(std::ranges::count_if(
                        data, [&](float value) { return value != expected; }));
                }
            });
        }
        threads.clear();
        return wrong.load();
    });

    CHECK(failed == "");
}

TEST_CASE("a plan runs again and again, and in one call") {
    constexpr int kSize = 2;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket);
        std::vector<float> a(10);
        std::vector<float> b(10);
        std::vector<Request> requests{allreduce("a", a), allreduce("b", b)};
        auto operations = self->tickets.create(requests);
        const auto plan = hvd::rt::make_plan(*operations);
        for (int round = 0; round < 200; ++round) {
            std::ranges::fill(a, static_cast<float>(rank + round));
            std::ranges::fill(b, 1.0F);
            const auto deadline = Deadline::in(std::chrono::seconds(20));
            if (round % 2 == 0) {
                require(self->engine->start(plan).has_value(), "start");
                require(self->engine->wait(plan.operations, deadline).has_value(), "wait");
            } else {
                require(self->engine->run(plan, deadline).has_value(), "run");
            }
            require(a.front() == static_cast<float>(2 * round + 1) && b.back() == 2, "wrong sum");
        }
        require(self->tickets.discard(*operations).has_value(), "discard");
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("wait_any, callbacks and early release") {
    const auto failed = [&] {
        auto world = thread_world(2);
        return run_thread_ranks(2, [&](int rank) {
            auto& self = *world[static_cast<std::size_t>(rank)];
            std::atomic<int> called{0};
            std::vector<float> data(8, 1.0F);
            std::vector<float> never(8, 1.0F);
            for (int round = 0; round < 50; ++round) {
                const auto first = self.submit({allreduce("now", data)});
                require(hvd::rt::TicketTable::on_complete(*first.front(),
                                                          [&](const hvd::Error*) {
                                                              ++called;
                                                              return hvd::ok();
                                                          })
                            .has_value(),
                        "callback");
                const auto index =
                    self.engine->wait_any(first, Deadline::in(std::chrono::seconds(20)));
                require(index && *index == 0, "wait_any");
                require(self.tickets.release(*first.front()).has_value(), "release");
            }
            require(called == 50, "callbacks: " + std::to_string(called.load()));
            const auto alone = self.submit({allreduce("alone." + std::to_string(rank), never)});
            const auto none =
                self.engine->wait_any(alone, Deadline::in(std::chrono::milliseconds(10)));
            require(none && *none == alone.size(), "nothing had ended");
            require(self.tickets.release(*alone.front()).has_value(), "release while pending");
            return 0;
        });
    }();

    CHECK(failed == "");
}

TEST_CASE("a name that is pending cannot be submitted again") {
    auto world = thread_world(2);
    std::vector<float> data(4);

    const auto first = world[0]->submit({allreduce("same", data)});
    std::vector<Request> again{allreduce("other", data), allreduce("same", data)};
    const auto second = world[0]->engine->submit(again);

    REQUIRE_FALSE(second);
    CHECK(second.error().code == Errc::invalid_argument);
    CHECK(second.error().message ==
          "a tensor named 'same' is already pending: wait for it, or use another name");
    std::vector<Request> other{allreduce("other", data)};
    CHECK(world[0]->engine->submit(other));
}

TEST_CASE("the cycle time lets small tensors wait for company, and no longer") {
    constexpr int kSize = 2;
    constexpr std::size_t kNames = 20;
    constexpr std::chrono::milliseconds kCycle{500};  // nobody submits that slowly
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket, {.cycle_time = kCycle});
        run_shuffled(*self, kNames, 1, kNames);
        const auto before = self->engine->counters().collectives;
        Tensors tensors(kNames, 5);
        tensors.fill(rank);
        std::vector<Operation*> pending;
        const auto start = std::chrono::steady_clock::now();
        for (std::size_t tensor = 0; tensor < kNames; ++tensor) {
            pending.push_back(self->submit({tensors.request(tensor)}).front());
        }
        for (const auto* operation : pending) {
            // Asleep, not helping: who waits in the engine makes it hurry.
            require(hvd::rt::TicketTable::wait(*operation, Deadline::in(std::chrono::seconds(20))),
                    "not done");
        }
        require(std::chrono::steady_clock::now() - start > kCycle / 2, "nothing waited");
        self->finish(pending);
        const auto collectives = self->engine->counters().collectives - before;
        require(collectives == 1, std::to_string(collectives) + " collectives");
        return 0;
    });

    CHECK(failures(ends) == "");
}
