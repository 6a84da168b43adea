// SPDX-License-Identifier: Apache-2.0
//
// Ranks that leave, in order or without a word.
#include "tests/integration/engine/engine_rank.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <vector>

#include <unistd.h>

using hvd::Deadline;
using hvd::Errc;
using hvd::rt::Operation;
using hvd::test::add_set;
using hvd::test::allreduce;
using hvd::test::EngineRank;
using hvd::test::failures;
using hvd::test::join_world;
using hvd::test::open_descriptors;
using hvd::test::pages_in_use;
using hvd::test::require;
using hvd::test::run_ranks;
using hvd::test::unique_socket_name;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kShutdownLimit{5};

#ifdef NDEBUG
constexpr int kManyRounds = 1000;
#else
constexpr int kManyRounds = 100;
#endif

/// Leaves with several tensors under way; they end one way or the other.
void leave_in_flight(EngineRank& self, std::size_t elements) {
    std::vector<std::vector<float>> data(6, std::vector<float>(elements, 1));
    std::vector<Operation*> pending;
    for (std::size_t tensor = 0; tensor < data.size(); ++tensor) {
        const auto made = self.submit({allreduce("t" + std::to_string(tensor), data[tensor])});
        pending.insert(pending.end(), made.begin(), made.end());
    }
    const auto start = Clock::now();
    self.engine->stop(Deadline::in(kShutdownLimit));
    require(Clock::now() - start < kShutdownLimit / 2, "the end has taken too long");
    for (std::size_t tensor = 0; tensor < data.size(); ++tensor) {
        require(hvd::rt::TicketTable::is_done(*pending[tensor]), "an operation has not ended");
        require(pending[tensor]->failed ? pending[tensor]->error.code == Errc::aborted
                                        : data[tensor].back() == static_cast<float>(self.size()),
                pending[tensor]->failed ? pending[tensor]->error.message : "the sum");
    }
}

}  // namespace

TEST_CASE("what is submitted after the engine has stopped fails at once") {
    const auto socket = unique_socket_name();
    const auto ends = run_ranks(1, [&](int rank) {
        auto self = join_world(rank, 1, socket);
        self->engine->stop(Deadline::in(kShutdownLimit));
        std::vector<float> data(10, 1);
        const auto late = self->submit({allreduce("late", data)});
        require(hvd::rt::TicketTable::is_done(*late.front()), "the operation has not ended");
        require(late.front()->failed, "the operation has not failed");
        return 0;
    });
    CHECK(failures(ends) == "");
}

TEST_CASE("ranks that leave with operations in flight do not take their time limit") {
    const int size = GENERATE(2, 3);
    const std::size_t elements = GENERATE(std::size_t{10}, std::size_t{300'000});
    CAPTURE(size, elements);
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(size, [&](int rank) {
        for (int round = 0; round < 20; ++round) {
            auto self = join_world(rank, size, socket + "." + std::to_string(round));
            std::vector<float> data(10, 1);
            if (round % 2 == 0) {
                self->run({allreduce("t0", data)});
            }
            if (round % 5 == rank) {
                ::usleep(2000);
            }
            leave_in_flight(*self, elements);
        }
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("a rank that leaves ends its own sets alone") {
    const int leaver = GENERATE(0, 1, 2);
    CAPTURE(leaver);
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(3, [&](int rank) {
        auto self = join_world(rank, 3, socket);
        const int others = add_set(*self, {(leaver + 1) % 3, (leaver + 2) % 3});
        const int both = add_set(*self, {leaver, (leaver + 1) % 3});
        std::vector<float> data(10, 1);
        self->run({allreduce("x", data)});
        if (rank == leaver) {
            const auto start = Clock::now();
            self->engine->stop(Deadline::in(kShutdownLimit));
            // Rank 0 coordinates the others, which a busy machine may slow down.
            require(Clock::now() - start < (rank == 0 ? kShutdownLimit : kShutdownLimit / 2),
                    "the end has taken too long");
            return 0;
        }
        ::usleep(static_cast<useconds_t>(rank) * 100'000);
        std::vector<float> large(200'000, 1);
        const auto run_among_others = [&](const std::string& name) {
            for (auto* values : {&data, &large}) {
                values->front() = 1;
                auto request = allreduce(name + std::to_string(values->size()), *values);
                request.process_set = others;
                self->run({request});
                require(values->front() == 2, "the sum among the others");
            }
        };
        const auto expect_failure = [&](int set) {
            auto request = allreduce("y", data);
            request.process_set = set;
            const auto error = self->failure_of({request});
            require(error.code == Errc::aborted &&
                        error.message.starts_with("rank " + std::to_string(leaver) + " (pid ") &&
                        error.message.find("has shut down while 'y' waited") != std::string::npos,
                    error.message);
            require(self->lost_peer == leaver, "who is missed is reported");
        };
        for (int round = 0; round < 5; ++round) {
            run_among_others("a");
        }
        expect_failure(0);
        if (rank == (leaver + 1) % 3) {
            expect_failure(both);
        }
        for (int round = 0; round < 5; ++round) {
            run_among_others("a");
            run_among_others("b" + std::to_string(round));
        }
        self->engine->stop(Deadline::in(kShutdownLimit));
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("a process that ends without a word after its part harms nobody") {
    const auto elements = GENERATE(std::size_t{1}, std::size_t{1'000'000});
    CAPTURE(elements);

    for (int round = 0; round < 8; ++round) {
        const auto socket = unique_socket_name();
        const auto ends = run_ranks(2, [&](int rank) {
            auto self = join_world(rank, 2, socket);
            std::vector<float> data(elements, 1);
            self->run({allreduce("x", data)});
            self->run({allreduce("x", data)});
            require(data.back() == 4, "the sum");
            if (rank == 1) {
                ::_exit(0);
            }
            ::usleep(50'000);
            require(self->lost_peer == -1, "a death was reported");
            self->engine->stop(Deadline::in(kShutdownLimit));
            require(self->lost_peer == -1, "a death was reported at the end");
            return 0;
        });
        CHECK(failures(ends) == "");
    }
}

TEST_CASE("worlds that come and go leave no memory and no descriptor behind") {
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(
        2,
        [&](int rank) {
            std::size_t descriptors = 0;
            long before = 0;
            for (int round = 0; round < kManyRounds; ++round) {
                const auto self = join_world(rank, 2, socket + "." + std::to_string(round));
                const int set = add_set(*self, {1});
                std::vector<float> data(10, 1);
                self->run({allreduce("x", data)});
                if (rank == 1) {
                    auto request = allreduce("x", data);
                    request.process_set = set;
                    self->run({request});
                }
                self->run({allreduce("end", data)});
                self->engine->stop(Deadline::in(kShutdownLimit));
                if (round == kManyRounds / 2) {
                    descriptors = open_descriptors();
                    before = pages_in_use();
                }
            }
            require(open_descriptors() <= descriptors, "descriptors are left");
            const auto more = pages_in_use() - before;
            require(more < 256, std::to_string(more) + " more pages are in use");
            return 0;
        },
        std::chrono::seconds(50));

    CHECK(failures(ends) == "");
}
