// SPDX-License-Identifier: Apache-2.0
//
// Who may not take part in a meeting, and that trying disturbs nobody.
#include "collectives/base/unix_socket.hpp"
#include "tests/integration/transport_shm/group_ranks.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <cstdio>
#include <functional>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::coll {
namespace {

using namespace std::chrono_literals;
using test::run_ranks;

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

}  // namespace
}  // namespace hvd::coll
