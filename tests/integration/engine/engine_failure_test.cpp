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
using hvd::coll::DataType;
using hvd::coll::Op;
using hvd::coll::ReduceOp;
using hvd::rt::Request;
using hvd::test::allreduce;
using hvd::test::failures;
using hvd::test::Gate;
using hvd::test::join_world;
using hvd::test::require;
using hvd::test::run_ranks;
using hvd::test::run_thread_ranks;
using hvd::test::thread_world;
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

struct Mismatch {
    std::string what;
    void (*change)(Request& request);
    std::string message;
};

}  // namespace

TEST_CASE("ranks that disagree are told the tensor, both values and the ranks on each side") {
    const auto& mismatch = GENERATE(values<Mismatch>({
        {"dtype", [](Request& r) { r.signature.type = DataType::i32; },
         "tensor 'grad': ranks disagree on the dtype: float32 on ranks 0,2, int32 on rank 1"},
        {"shape",
         [](Request& r) {
             r.signature.shape = {2, 2};
         },
         "tensor 'grad': ranks disagree on the shape: [4] on ranks 0,2, [2, 2] on rank 1"},
        {"operation", [](Request& r) { r.signature.op = Op::broadcast; },
         "tensor 'grad': ranks disagree on the operation: allreduce on ranks 0,2, broadcast on "
         "rank 1"},
        {"reduce", [](Request& r) { r.signature.reduce = ReduceOp::max; },
         "tensor 'grad': ranks disagree on the reduce operation: sum on ranks 0,2, max on rank 1"},
        {"scale", [](Request& r) { r.signature.postscale = 0.5; },
         "tensor 'grad': ranks disagree on the postscale factor: 1 on ranks 0,2, 0.5 on rank 1"},
    }));
    CAPTURE(mismatch.what);
    auto world = thread_world(3);

    const auto failed = run_thread_ranks(3, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        std::vector<float> data(4, 1.0F);
        auto request = allreduce("grad", data);
        if (rank == 1) {
            mismatch.change(request);
        }
        const auto error = self.failure_of({request});
        require(error.code == Errc::mismatch, "code");
        require(error.message == mismatch.message, error.message);
        // The world goes on.
        self.run({allreduce("grad", data)});
        require(data.front() == 3, "sum after a mismatch");
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("ranks that group tensors in different ways are told, also when they agreed before") {
    const bool is_cached = GENERATE(false, true);
    const bool is_pair = GENERATE(false, true);  // rank 1 has another group, or single tensors
    CAPTURE(is_cached, is_pair);
    auto world = thread_world(2);

    const auto failed = run_thread_ranks(2, [&](int rank) {
        auto& self = *world[static_cast<std::size_t>(rank)];
        std::vector<float> data(3, 1.0F);
        const auto request = [&](std::size_t index, std::uint64_t group) {
            auto made = allreduce(std::string(1, static_cast<char>('a' + index)),
                                  std::span(data).subspan(index, 1));
            made.group = group;
            return made;
        };
        const std::vector<Request> all{request(0, 1), request(1, 1), request(2, 1)};
        if (is_cached) {
            self.run(all);
        }
        auto changed = all;
        if (rank == 1) {
            changed = {request(0, is_pair ? 1 : 0), request(1, is_pair ? 1 : 0), request(2, 0)};
        }
        const auto error = self.failure_of(changed);
        require(error.code == Errc::mismatch, error.message);
        require(error.message.find("ranks disagree on its group") != std::string::npos,
                error.message);
        std::ranges::fill(data, 1.0F);
        self.run(all);
        require(data[0] == 2 && data[2] == 2, "sums after a mismatch");
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("roots that differ are a mismatch") {
    auto world = thread_world(2);

    const auto failed = run_thread_ranks(2, [&](int rank) {
        std::vector<float> data(4, 1.0F);
        auto request = allreduce("weights", data);
        request.signature.op = Op::broadcast;
        request.signature.root = rank;
        const auto error = world[static_cast<std::size_t>(rank)]->failure_of({request});
        require(error.message ==
                    "tensor 'weights': ranks disagree on the root rank: 0 on rank 0, "
                    "1 on rank 1",
                error.message);
        return 0;
    });

    CHECK(failed == "");
}

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
            // What has ended here may go on in others, and would fail with this rank.
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
        require(pending.message == expected, pending.message);
        require(self->failure_of({allreduce("later", data)}).message == expected, "later");
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
            require(exception.error().code == Errc::unavailable, exception.error().message);
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
