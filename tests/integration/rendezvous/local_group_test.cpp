// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/local_group.hpp"

#include "collectives/rendezvous/unix_socket.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::coll {
namespace {

using namespace std::chrono_literals;
using test::run_ranks;

constexpr auto kLimit = 10s;

void expect(bool holds, const std::string& what) {
    if (!holds) {
        throw std::runtime_error(what);
    }
}

LocalMeeting meeting(const std::string& socket, int rank, int size) {
    return {.local_rank = rank,
            .local_size = size,
            .socket = socket,
            .key = std::vector<std::byte>(32, std::byte{7}),
            .segments = {100, 5000}};
}

std::unique_ptr<LocalGroup> meet(const LocalMeeting& where, Deadline deadline) {
    auto group = LocalGroup::meet(where, deadline);
    if (!group) {
        throw std::runtime_error(group.error().message);
    }
    return std::move(group).value();
}

std::unique_ptr<LocalGroup> meet(const std::string& socket, int rank, int size) {
    return meet(meeting(socket, rank, size), Deadline::in(kLimit));
}

std::atomic<std::uint64_t>& number(const LocalGroup& group, std::size_t index) {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(group.segment(1).data())[index];
}

/// Everybody reaches it before anybody passes.
void meet_again(const LocalGroup& group, std::size_t counter) {
    number(group, counter).fetch_add(1);
    const auto deadline = Deadline::in(kLimit);
    while (number(group, counter).load() < static_cast<std::uint64_t>(group.size())) {
        expect(!deadline.has_passed(), "the others did not come");
        std::this_thread::yield();
    }
}

std::string error_of(const LocalMeeting& where, Deadline deadline, Errc code) {
    const auto group = LocalGroup::meet(where, deadline);
    expect(!group.has_value(), "they met");
    expect(group.error().code == code,
           "code " + std::string(to_string(group.error().code)) + ": " + group.error().message);
    return group.error().message;
}

void expect_contains(const std::string& text, const std::string& part) {
    expect(text.find(part) != std::string::npos, "\"" + text + "\" does not say \"" + part + "\"");
}

TEST_CASE("ranks of one host get the same memory, pids, bells and pidfds") {
    const int size = GENERATE(1, 2, 7, 70);
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(size, [&](int rank) {
        const auto group = meet(socket, rank, size);
        expect(group->rank() == rank && group->size() == size, "rank and size");
        expect(group->segment(0).size() == 100 && group->segment(1).size() == 5000, "segments");
        expect(reinterpret_cast<std::uintptr_t>(group->segment(1).data()) % 4096 == 0, "alignment");
        expect(group->pid(rank) == ::getpid(), "own pid");
        number(*group, 100 + static_cast<std::size_t>(rank)) =
            static_cast<std::uint64_t>(::getpid());
        meet_again(*group, 0);
        for (int peer = 0; peer < size; ++peer) {
            const auto pid = number(*group, 100 + static_cast<std::size_t>(peer)).load();
            expect(static_cast<std::uint64_t>(group->pid(peer)) == pid, "a peer's pid");
            if (peer != rank) {
                pollfd ended{group->peer_pidfd(peer), POLLIN, 0};
                expect(::poll(&ended, 1, 0) == 0, "a living peer looks dead");
            }
        }
        meet_again(*group, 1);
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("only who sleeps is rung, and once") {
    const std::size_t segments[] = {8};
    const auto groups = LocalGroup::among_threads(2, segments);
    REQUIRE(groups.has_value());
    auto& sleeper = *groups->at(0);
    auto& other = *groups->at(1);
    const auto rings = [&] {
        pollfd bell{sleeper.bell(), POLLIN, 0};
        return ::poll(&bell, 1, 0) == 1;
    };

    other.notify(0);
    CHECK_FALSE(rings());

    sleeper.about_to_sleep();
    CHECK_FALSE(rings());
    other.notify_others();
    CHECK(rings());
    sleeper.hush();
    other.notify(0);  // its bit is gone: it has been woken
    CHECK_FALSE(rings());

    sleeper.about_to_sleep();
    sleeper.awake();
    other.notify(0);
    CHECK_FALSE(rings());
    sleeper.ring_self();
    CHECK(rings());
}

TEST_CASE("a bell rings in the other process") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(3, [&](int rank) {
        const auto group = meet(socket, rank, 3);
        // A token goes round, each rank asleep until it comes.
        for (std::uint64_t turn = 0; turn < 300; ++turn) {
            if (turn % 3 == static_cast<std::uint64_t>(rank)) {
                const auto deadline = Deadline::in(kLimit);
                while (number(*group, 0).load() != turn) {
                    group->about_to_sleep();
                    if (number(*group, 0).load() == turn) {
                        group->awake();
                        break;
                    }
                    pollfd bell{group->bell(), POLLIN, 0};
                    expect(::poll(&bell, 1, deadline.poll_timeout_ms()) == 1, "nobody rang");
                    group->awake();
                    group->hush();
                }
                number(*group, 0) = turn + 1;
                group->notify((rank + 1) % 3);
            }
        }
        meet_again(*group, 1);
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("a peer's death is seen by its pidfd, also while its children live") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(2, [&](int rank) {
        const auto group = meet(socket, rank, 2);
        if (rank == 1) {
            if (::fork() == 0) {
                ::alarm(1);
                ::pause();
            }
            ::_exit(0);
        }
        pollfd ended{group->peer_pidfd(1), POLLIN, 0};
        expect(::poll(&ended, 1, 1000) == 1, "the death was not seen");
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("the time-out names the missing ranks, on all ranks that came") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(2, [&](int rank) {
        const auto text =
            error_of(meeting(socket, rank == 0 ? 0 : 2, 5), Deadline::in(300ms), Errc::timed_out);
        expect_contains(text, "local ranks 1,3-4 of 5 did not come to socket @" + socket);
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("without local rank 0 the others say so") {
    const auto text =
        error_of(meeting(test::unique_socket_name(), 1, 2), Deadline::in(50ms), Errc::timed_out);

    CHECK_THAT(text, Catch::Contains("local rank 0 did not come"));
}

TEST_CASE("a rank that comes twice is refused with both pids, and the others meet") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(4, [&](int index) {
        if (index < 2) {
            // The third rank comes only when the duplicate has been told.
            const auto group = meet(socket, index, 3);
            expect(group->pid(1) != ::getpid() || index == 1, "pid");
            return 0;
        }
        if (index == 2) {
            std::this_thread::sleep_for(200ms);
            (void)meet(socket, 2, 3);
            return 0;
        }
        std::this_thread::sleep_for(50ms);
        const auto text =
            error_of(meeting(socket, 1, 3), Deadline::in(kLimit), Errc::invalid_argument);
        expect_contains(text, "local rank 1 came twice: pid ");
        expect_contains(text, "and pid " + std::to_string(::getpid()));
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("a second local rank 0 is refused with both pids") {
    const auto socket = test::unique_socket_name();
    const auto listening = listen_abstract(socket, SOCK_SEQPACKET);
    REQUIRE(listening.has_value());

    const auto text = error_of(meeting(socket, 0, 2), Deadline::in(kLimit), Errc::invalid_argument);

    CHECK_THAT(text, Catch::Contains("local rank 0 came twice: pid " + std::to_string(::getpid())));
}

TEST_CASE("garbage, silence and strangers do not stop the meeting") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(3, [&](int index) {
        if (index == 0) {
            (void)meet(socket, 0, 2);
            return 0;
        }
        if (index == 1) {
            std::this_thread::sleep_for(150ms);
            (void)meet(socket, 1, 2);
            return 0;
        }
        std::vector<UniqueFd> open;
        const auto deadline = Deadline::in(kLimit);
        for (const std::string_view garbage : {"", "x", "1HVD", "HTTP/1.1 GET /", "\x31HVD\x01"}) {
            auto connection = connect_abstract(socket, SOCK_SEQPACKET, deadline);
            while (connection.has_value() && !*connection && !deadline.has_passed()) {
                std::this_thread::yield();
                connection = connect_abstract(socket, SOCK_SEQPACKET, deadline);
            }
            expect(connection.has_value(), "connect");
            if (!garbage.empty()) {
                (void)send_packet(connection->get(), std::as_bytes(std::span(garbage)), {},
                                  Deadline::in(kLimit));
            }
            open.push_back(std::move(*connection));
        }
        std::this_thread::sleep_for(300ms);
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("a process with another key is refused") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(2, [&](int rank) {
        auto where = meeting(socket, rank, 2);
        where.key.back() = static_cast<std::byte>(rank);
        if (rank == 0) {
            const auto text = error_of(where, Deadline::in(200ms), Errc::timed_out);
            expect_contains(text, "was refused: it does not have this job's key");
        } else {
            const auto text = error_of(where, Deadline::in(kLimit), Errc::invalid_argument);
            expect_contains(text, "belongs to another job");
        }
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

/// Runs `body` in a grandchild whose parent is not the test.
int behind_another_parent(const std::function<int()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
        int code = 1;
        try {
            code = body();
        } catch (const std::exception& exception) {
            std::fprintf(stderr, "%s\n", exception.what());
        }
        ::_exit(code);
    }
    int status = 0;
    (void)::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

TEST_CASE("without a key only children of one launcher meet") {
    const auto socket = test::unique_socket_name();
    const auto keyless = [&](int rank) {
        auto where = meeting(socket, rank, 2);
        where.key.clear();
        return where;
    };

    const auto met = run_ranks(2, [&](int rank) {
        (void)meet(keyless(rank), Deadline::in(kLimit));
        return 0;
    });
    CHECK(test::failures(met) == "");

    const auto refused = run_ranks(2, [&](int rank) {
        if (rank == 0) {
            (void)error_of(keyless(0), Deadline::in(300ms), Errc::timed_out);
            return 0;
        }
        return behind_another_parent([&] {
            const auto text = error_of(keyless(1), Deadline::in(kLimit), Errc::invalid_argument);
            expect_contains(text, "did not start it: it belongs to another job");
            return 0;
        });
    });
    CHECK(test::failures(refused) == "");

    // A wrapper between the launcher and the rank is no obstacle when the launcher is named.
    const pid_t launcher = ::getpid();
    const auto wrapped = run_ranks(2, [&](int rank) {
        const auto body = [&] {
            auto where = keyless(rank);
            where.launcher = launcher;
            (void)meet(where, Deadline::in(kLimit));
            return 0;
        };
        return rank == 0 ? body() : behind_another_parent(body);
    });
    CHECK(test::failures(wrapped) == "");
}

TEST_CASE("ranks that count differently are refused with both counts") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(2, [&](int rank) {
        if (rank == 0) {
            (void)error_of(meeting(socket, 0, 2), Deadline::in(200ms), Errc::timed_out);
            return 0;
        }
        const auto text =
            error_of(meeting(socket, 1, 3), Deadline::in(kLimit), Errc::invalid_argument);
        expect_contains(text, "local rank 1 of 3, but local rank 0 counts 2 ranks");
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("a rank that dies while others are awaited ends the meeting at once") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(2, [&](int rank) {
        if (rank == 1) {
            auto connection = std::jthread(
                [&] { (void)LocalGroup::meet(meeting(socket, 1, 3), Deadline::in(kLimit)); });
            std::this_thread::sleep_for(100ms);
            (void)::kill(::getpid(), SIGKILL);
        }
        const auto text = error_of(meeting(socket, 0, 3), Deadline::in(kLimit), Errc::unavailable);
        expect_contains(text, "local rank 1 (pid ");
        expect_contains(text, "left before all ranks of this host had met");
        return 0;
    });

    CHECK(ends[0].exit_code == 0);
    CHECK(ends[0].output == "");
    CHECK(ends[1].signal == SIGKILL);
}

TEST_CASE("the same ranks can meet again and again under one name") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(3, [&](int rank) {
        for (int round = 0; round < 50; ++round) {
            const auto group = meet(socket, rank, 3);
            expect(number(*group, 0).load() == 0 || group->size() == 3, "memory of an old meeting");
            meet_again(*group, 0);
        }
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("a forked child has no shared memory, and its exit harms nobody") {
    const std::size_t segments[] = {4096};
    const auto groups = LocalGroup::among_threads(1, segments);
    REQUIRE(groups.has_value());
    const auto memory = groups->front()->segment(0);

    const pid_t child = ::fork();
    if (child == 0) {
        // Readable memory would be written to the pipe; memory that is not there is EFAULT.
        int ends[2] = {};
        const bool is_there = ::pipe(ends) == 0 && ::write(ends[1], memory.data(), 1) == 1;
        ::_exit(is_there ? 1 : 0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);

    CHECK(status == 0);
    CHECK((::fcntl(groups->front()->bell(), F_GETFD) & FD_CLOEXEC) != 0);
    memory.front() = std::byte{1};
}

}  // namespace
}  // namespace hvd::coll
