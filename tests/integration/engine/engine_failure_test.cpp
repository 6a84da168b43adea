// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/engine/engine_rank.hpp"
#include "tests/integration/engine/gate.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using hvd::Deadline;
using hvd::Errc;
using hvd::Exception;
using hvd::test::allreduce;
using hvd::test::failures;
using hvd::test::Gate;
using hvd::test::join_world;
using hvd::test::require;
using hvd::test::run_ranks;
using hvd::test::unique_socket_name;
using Clock = std::chrono::steady_clock;

namespace {

/// Voluntary context switches of the engine's thread.
long voluntary_switches() {
    long total = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name;
        std::ifstream(task.path() / "comm") >> name;
        std::ifstream status(task.path() / "status");
        if (name != "hvd-engine") {
            continue;
        }
        for (std::string line; std::getline(status, line);) {
            if (line.starts_with("voluntary_ctxt_switches:")) {
                total += std::stol(line.substr(line.find(':') + 1));
            }
        }
    }
    return total;
}

}  // namespace

TEST_CASE(
    "a rank that dies fails what is pending and what comes later, by name and within a second") {
    constexpr int kSize = 3;
    struct Victim {
        int rank;
        bool is_warm;  // it has taken part in something before
        bool leaves_children;
    };
    const auto victim = GENERATE(Victim{1, true, false}, Victim{1, true, true},
                                 Victim{1, false, false}, Victim{0, true, false});
    CAPTURE(victim.rank, victim.is_warm, victim.leaves_children);
    const auto socket = unique_socket_name();
    const Gate warm;

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket);
        std::vector<float> data(1000, 1.0F);
        if (victim.is_warm) {
            self->run({allreduce("warm", data)});
            warm.arrive();
        }
        if (rank == victim.rank) {
            // An operation that has ended here may go on in other ranks, and would fail with this
            // one.
            warm.await(victim.is_warm ? kSize : 0);
            if (victim.leaves_children && ::fork() == 0) {
                // A data loader: it has inherited every descriptor.
                ::sleep(5);
                ::_exit(0);
            }
            (void)::raise(SIGKILL);
        }
        const auto start = Clock::now();
        const auto pending = self->failure_of({allreduce("pending", data)});
        require(Clock::now() - start < std::chrono::seconds(1), "too late");
        require(pending.code == Errc::unavailable, pending.message);
        const auto expected = "rank " + std::to_string(victim.rank) + " (pid " +
                              std::to_string(self->pid_of(victim.rank)) +
                              " on host testhost) has died";
        require(pending.message == expected + "; 'pending' (allreduce) was not finished",
                pending.message);
        const auto later = self->failure_of({allreduce("later", data)});
        require(later.message == expected + "; 'later' (allreduce) was not finished",
                later.message);
        require(self->lost_peer == victim.rank, "not reported");
        return 0;
    });

    for (int rank = 0; rank < kSize; ++rank) {
        const auto& end = ends[static_cast<std::size_t>(rank)];
        CAPTURE(rank);
        CHECK(end.output == "");
        CHECK((rank == victim.rank ? end.signal == SIGKILL : end.exit_code == 0));
    }
}

TEST_CASE("a rank killed in the middle of collectives harms only the operations") {
    constexpr int kSize = 3;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket);
        std::vector<float> data(std::size_t{1} << 20, 1.0F);
        std::jthread killer;
        if (rank == 2) {
            killer = std::jthread([] {
                std::this_thread::sleep_for(std::chrono::milliseconds(200));
                (void)::raise(SIGKILL);
            });
        }
        try {
            for (int round = 0; round < 1'000'000; ++round) {
                self->run({allreduce("busy." + std::to_string(round % 3), data)});
            }
        } catch (const Exception& exception) {
            const auto& error = exception.error();
            require(error.code == Errc::unavailable, error.message);
            require(error.message.find("; 'busy.") != std::string::npos, error.message);
            return 0;
        }
        return 1;
    });

    CHECK(ends[0].exit_code == 0);
    CHECK(ends[1].exit_code == 0);
    CHECK(ends[2].signal == SIGKILL);
}

TEST_CASE("a rank that shuts down in order lets finish what was agreed, and nothing more") {
    const bool has_stray = GENERATE(false, true);
    CAPTURE(has_stray);
    constexpr int kSize = 3;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        auto self = join_world(rank, kSize, socket);
        std::vector<float> data(500'000, 1.0F);
        std::vector<float> stray(1);
        if (rank == 2 && has_stray) {
            (void)self->submit({allreduce("stray", stray)});  // nobody else ever does
        }
        self->run({allreduce("last", data)});
        require(data.front() == kSize, "sum");
        if (rank == 2) {
            self->engine->stop(Deadline::in(std::chrono::seconds(5)));
            return 0;
        }
        const auto error = self->failure_of({allreduce("more", data)});
        require(error.code == Errc::aborted, error.message);
        require(error.message.starts_with("rank 2 (pid ") &&
                    error.message.find(" on host testhost) has shut down while 'more' waited") !=
                        std::string::npos,
                error.message);
        require(self->lost_peer == 2, "who is missed is reported");
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("a rank that shuts down with something pending fails it for the others, soon") {
    const bool is_cached = GENERATE(true, false);
    CAPTURE(is_cached);
    constexpr int kSize = 2;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        auto self = join_world(rank, kSize, socket);
        std::vector<float> data(10, 1.0F);
        self->run({allreduce(is_cached ? "x" : "y", data)});
        if (rank == 1) {
            (void)self->submit({allreduce("x", data)});
            ::usleep(100'000);  // said, and not agreed
            self->engine->stop(Deadline::in(std::chrono::seconds(5)));
            ::sleep(1);  // its end would tell the other one
            return 0;
        }
        ::usleep(300'000);
        const auto start = Clock::now();
        const auto error = self->failure_of({allreduce("x", data)});
        require(Clock::now() - start < std::chrono::seconds(5), "too late");
        require(error.code == Errc::aborted &&
                    error.message.find("has shut down while 'x' waited") != std::string::npos,
                error.message);
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE(
    "what has failed on one rank is told to all others, also where that rank leaves at once") {
    constexpr int kSize = 3;
    const int failing = GENERATE(0, 1, 2);
    CAPTURE(failing);
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        auto self = join_world(rank, kSize, socket, {.failing_rank = failing});
        std::vector<float> data(10, 1.0F);
        auto broken = allreduce("broken", data);
        broken.signature.type = hvd::coll::DataType::u16;
        const auto error = self->failure_of({std::move(broken)});
        if (rank == failing) {
            require(error.code == Errc::internal, error.message);
            self->engine->stop(Deadline::in(std::chrono::seconds(5)));
        } else {
            require(error.code == Errc::aborted &&
                        error.message.find("rank " + std::to_string(failing)) == 0,
                    error.message);
            // A later operation fails alike.
            require(self->failure_of({allreduce("later", data)}).message.find("the fan") !=
                        std::string::npos,
                    "the cause");
        }
        require(error.message.find("the fan has stopped") != std::string::npos, error.message);
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("an engine whose peer dies while tensors gather goes to sleep") {
    constexpr int kSize = 2;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self =
            join_world(rank, kSize, socket, {.cycle_time = std::chrono::milliseconds(500)});
        std::vector<float> data(10, 1.0F);
        self->run({allreduce("warm", data)});
        if (rank == 1) {
            ::usleep(100'000);
            (void)::raise(SIGKILL);
        }
        const auto pending = self->submit({allreduce("x", data)});
        require(hvd::rt::TicketTable::wait(*pending.front(), Deadline::in(std::chrono::seconds(5))),
                "not failed");
        ::usleep(700'000);  // past the cycle's end
        const auto wakeups = self->engine->counters().engine_wakeups;
        ::usleep(300'000);
        require(self->engine->counters().engine_wakeups - wakeups < 3, "the engine spins");
        return 0;
    });

    CHECK(ends[0].output == "");
    CHECK(ends[0].exit_code == 0);
}

TEST_CASE("an engine with nothing to do does not wake up") {
    constexpr int kSize = 2;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        const auto self = join_world(rank, kSize, socket);
        std::vector<float> data(1000, 1.0F);
        self->run({allreduce("warm", data)});
        ::usleep(100'000);  // the other rank's last words may still wake this one
        const auto wakeups = self->engine->counters().engine_wakeups;
        const auto before = voluntary_switches();
        ::sleep(5);
        require(before > 0, "the engine's thread was not found");
        require(voluntary_switches() == before,
                std::to_string(voluntary_switches() - before) + " voluntary switches");
        require(self->engine->counters().engine_wakeups == wakeups, "the engine woke up");
        ::usleep(300'000);  // neither leaves while the other still counts
        return 0;
    });

    CHECK(failures(ends) == "");
}

TEST_CASE("a world can be left and joined a hundred times") {
    constexpr int kSize = 2;
    const auto socket = unique_socket_name();

    const auto ends = run_ranks(kSize, [&](int rank) {
        for (int round = 0; round < 100; ++round) {
            const auto self = join_world(rank, kSize, socket + "." + std::to_string(round));
            std::vector<float> data(10, 1.0F);
            self->run({allreduce("x", data)});
            require(data.front() == kSize, "sum");
            self->engine->stop(Deadline::in(std::chrono::seconds(5)));
        }
        return 0;
    });

    CHECK(failures(ends) == "");
}
