// SPDX-License-Identifier: Apache-2.0
//
// Processes that may not join a group, and that their trying disturbs nobody.
#include "collectives/base/unix_socket.hpp"
#include "tests/integration/transport_shm/group_ranks.hpp"
#include "tests/support/proc_group.hpp"
#include "tests/support/test_main.hpp"

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

constexpr uid_t kNobody = 65534;

TEST_CASE("a rank that comes twice is refused with both pids, and the others form the group") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(4, [&](int index) {
        if (index < 2) {
            // The third rank comes only when the duplicate has been told.
            const auto group = form(socket, index, 3);
            expect(group->pid(1) != ::getpid() || index == 1, "pid");
            return 0;
        }
        if (index == 2) {
            std::this_thread::sleep_for(200ms);
            (void)form(socket, 2, 3);
            return 0;
        }
        std::this_thread::sleep_for(50ms);
        const auto text =
            error_of(options_of(socket, 1, 3), Deadline::in(kLimit), Errc::invalid_argument);
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

    const auto text =
        error_of(options_of(socket, 0, 2), Deadline::in(kLimit), Errc::invalid_argument);

    CHECK_THAT(text, Catch::Contains("local rank 0 came twice: pid " + std::to_string(::getpid())));
}

TEST_CASE("garbage, silence and unknown processes do not stop the group") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(3, [&](int index) {
        if (index == 0) {
            (void)form(socket, 0, 2);
            return 0;
        }
        if (index == 1) {
            std::this_thread::sleep_for(150ms);
            (void)form(socket, 1, 2);
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

/// As another user: listens at every name and accepts nothing; of several, the last one's queue is
/// full.
std::vector<UniqueFd> hold_names(const std::vector<std::string>& names) {
    expect(::setresuid(kNobody, kNobody, kNobody) == 0, "setresuid");
    std::vector<UniqueFd> held;
    for (const auto& name : names) {
        auto listening = listen_abstract(name, SOCK_SEQPACKET);
        expect(listening.has_value() && !listening->is_name_taken, "the name " + name);
        held.push_back(std::move(listening->socket));
    }
    if (names.size() == 1) {
        return held;
    }
    expect(::listen(held.back().get(), 0) == 0, "listen");
    held.push_back(connect_abstract(names.back(), SOCK_SEQPACKET, Deadline::in(1s)).value());
    return held;
}

TEST_CASE("another user who holds all names that can be guessed does not stop the group") {
    if (::geteuid() != 0) {
        test::skip("a process of another user needs root");
    }
    const auto name = test::unique_socket_name();
    std::vector<std::string> guesses{name};
    for (int number = 0; number < 300; ++number) {
        guesses.push_back(name + "/" + std::to_string(number));
    }
    const auto keyless = [&](int rank) {
        auto options = options_of(name, rank, 2);
        options.key.clear();
        return options;
    };

    const auto ends = run_ranks(3, [&](int index) {
        const auto deadline = Deadline::in(kLimit);
        if (index == 2) {
            const auto held = hold_names(guesses);
            std::this_thread::sleep_for(500ms);
            return 0;
        }
        while (listening_abstract_names(name).size() < guesses.size()) {
            expect(!deadline.has_passed(), "nobody holds the names");
            std::this_thread::sleep_for(1ms);
        }
        (void)form(keyless(index), deadline);
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("a rank that finds only sockets of another user says whose they are") {
    if (::geteuid() != 0) {
        test::skip("a process of another user needs root");
    }
    const auto name = test::unique_socket_name();

    const auto ends = run_ranks(2, [&](int index) {
        if (index == 0) {
            const auto held = hold_names({name});
            std::this_thread::sleep_for(300ms);
            return 0;
        }
        const auto deadline = Deadline::in(kLimit);
        while (listening_abstract_names(name).empty()) {
            expect(!deadline.has_passed(), "nobody holds the name");
            std::this_thread::sleep_for(1ms);
        }
        const auto text = error_of(options_of(name, 1, 2), Deadline::in(100ms), Errc::timed_out);
        expect_contains(text, "of user " + std::to_string(kNobody));
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("a process with another key is refused") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(2, [&](int rank) {
        auto where = options_of(socket, rank, 2);
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

TEST_CASE("without a key only children of one launcher form a group") {
    const auto socket = test::unique_socket_name();
    const auto keyless = [&](int rank) {
        auto where = options_of(socket, rank, 2);
        where.key.clear();
        return where;
    };

    const auto met = run_ranks(2, [&](int rank) {
        (void)form(keyless(rank), Deadline::in(kLimit));
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

    // A wrapper between launcher and rank is accepted when the launcher is named.
    const pid_t launcher = ::getpid();
    const auto wrapped = run_ranks(2, [&](int rank) {
        const auto body = [&] {
            auto where = keyless(rank);
            where.launcher = launcher;
            (void)form(where, Deadline::in(kLimit));
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
            (void)error_of(options_of(socket, 0, 2), Deadline::in(200ms), Errc::timed_out);
            return 0;
        }
        const auto text =
            error_of(options_of(socket, 1, 3), Deadline::in(kLimit), Errc::invalid_argument);
        expect_contains(text, "local rank 1 of 3, but local rank 0 counts 2 ranks");
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

}  // namespace
}  // namespace hvd::coll
