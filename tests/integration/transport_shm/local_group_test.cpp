// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/unix_socket.hpp"
#include "tests/integration/transport_shm/group_ranks.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::coll {
namespace {

using namespace std::chrono_literals;
using test::run_ranks;

TEST_CASE("ranks of one host get the same memory, pids, wake-ups and pidfds") {
    const int size = GENERATE(1, 2, 7, 70);
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(size, [&](int rank) {
        const auto group = form(socket, rank, size);
        expect(group->rank() == rank && group->size() == size, "rank and size");
        expect(group->segment(0).size() == 100 && group->segment(1).size() == 5000, "segments");
        expect(reinterpret_cast<std::uintptr_t>(group->segment(1).data()) % 4096 == 0, "alignment");
        expect(group->pid(rank) == ::getpid(), "own pid");
        number(*group, 100 + static_cast<std::size_t>(rank)) =
            static_cast<std::uint64_t>(::getpid());
        wait_for_all(*group, 0);
        for (int peer = 0; peer < size; ++peer) {
            const auto pid = number(*group, 100 + static_cast<std::size_t>(peer)).load();
            expect(static_cast<std::uint64_t>(group->pid(peer)) == pid, "a peer's pid");
            if (peer != rank) {
                pollfd ended{group->peer_pidfd(peer), POLLIN, 0};
                expect(::poll(&ended, 1, 0) == 0, "a living peer looks dead");
            }
        }
        wait_for_all(*group, 1);
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("a rank is notified only while it sleeps, and once") {
    const std::array<std::size_t, 1> segments{8};
    const auto groups = LocalGroup::among_threads(2, segments);
    REQUIRE(groups.has_value());
    auto& sleeper = *groups->at(0);
    auto& other = *groups->at(1);
    const auto is_notified = [&] {
        pollfd wakeup{sleeper.wakeup_descriptor(), POLLIN, 0};
        return ::poll(&wakeup, 1, 0) == 1;
    };

    other.notify(0);
    CHECK_FALSE(is_notified());

    sleeper.about_to_sleep();
    CHECK_FALSE(is_notified());
    other.notify_others();
    CHECK(is_notified());
    sleeper.drain();
    other.notify(0);  // its bit is gone: it has been woken
    CHECK_FALSE(is_notified());

    sleeper.about_to_sleep();
    sleeper.awake();
    other.notify(0);
    CHECK_FALSE(is_notified());
    sleeper.notify_self();
    CHECK(is_notified());
}

TEST_CASE("a rank is woken from another process") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(3, [&](int rank) {
        const auto group = form(socket, rank, 3);
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
                    pollfd wakeup{group->wakeup_descriptor(), POLLIN, 0};
                    expect(::poll(&wakeup, 1, deadline.poll_timeout_ms()) == 1,
                           "no rank notified it");
                    group->awake();
                    group->drain();
                }
                number(*group, 0) = turn + 1;
                group->notify((rank + 1) % 3);
            }
        }
        wait_for_all(*group, 1);
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("a peer's death is seen by its pidfd, also while its children live") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(2, [&](int rank) {
        const auto group = form(socket, rank, 2);
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
        const auto text = error_of(options_of(socket, rank == 0 ? 0 : 2, 5), Deadline::in(300ms),
                                   Errc::timed_out);
        expect_contains(text, "ranks 1,3-4 have not come to hvd.init() (socket @" + socket);
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("the ranks of a host that is not the first are named as the world counts them") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(2, [&](int rank) {
        auto options = options_of(socket, rank, 3);
        options.world_ranks = {4, 5, 6};
        expect_contains(error_of(options, Deadline::in(300ms), Errc::timed_out),
                        "rank 6 has not come to hvd.init() (socket @" + socket);
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("without local rank 0 the others say so") {
    const auto text =
        error_of(options_of(test::unique_socket_name(), 1, 2), Deadline::in(50ms), Errc::timed_out);

    CHECK_THAT(text, Catch::StartsWith("rank 0 has not come to hvd.init() ("));
}

TEST_CASE("a rank that dies while others are awaited ends the rendezvous at once") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(2, [&](int rank) {
        if (rank == 1) {
            auto connection = std::jthread(
                [&] { (void)LocalGroup::form(options_of(socket, 1, 3), Deadline::in(kLimit)); });
            std::this_thread::sleep_for(100ms);
            (void)::kill(::getpid(), SIGKILL);
        }
        const auto text =
            error_of(options_of(socket, 0, 3), Deadline::in(kLimit), Errc::unavailable);
        expect_contains(text, "local rank 1 (pid ");
        expect_contains(text, "left before all ranks of this host had met");
        return 0;
    });

    CHECK(ends[0].exit_code == 0);
    CHECK(ends[0].output == "");
    CHECK(ends[1].signal == SIGKILL);
}

/// Says after a while that a rank is gone, as an agent does.
class LateDetector final : public FailureDetector {
public:
    LateDetector() : teller_([this] { tell(); }) {}

    [[nodiscard]] int failure_descriptor() const noexcept override { return wakeup_.get(); }

    [[nodiscard]] Result<std::optional<PeerFailure>> next_failure() override {
        pollfd told{wakeup_.get(), POLLIN, 0};
        return ::poll(&told, 1, 0) == 1
                   ? std::optional(PeerFailure{.rank = 1, .why = "rank 1 left"})
                   : std::nullopt;
    }

private:
    void tell() const {
        std::this_thread::sleep_for(50ms);
        const std::uint64_t one = 1;
        (void)(::write(wakeup_.get(), &one, sizeof one) < 0);
    }

    UniqueFd wakeup_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::jthread teller_;
};

TEST_CASE("the notice of a rank that is gone ends the rendezvous at once, on both sides") {
    const int rank = GENERATE(0, 2);
    LateDetector detector;
    auto lacking = options_of(test::unique_socket_name(), rank, 3);
    lacking.failures = &detector;

    CHECK(error_of(lacking, Deadline::in(kLimit), Errc::unavailable) == "rank 1 left");
}

TEST_CASE("the same ranks can form a group again and again under one name") {
    const auto socket = test::unique_socket_name();

    const auto ends = run_ranks(3, [&](int rank) {
        for (int round = 0; round < 50; ++round) {
            const auto group = form(socket, rank, 3);
            expect(number(*group, 0).load() == 0 || group->size() == 3, "memory of an old group");
            wait_for_all(*group, 0);
        }
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("the last packet is not lost when the other end closes behind it") {
    std::atomic<int> sender = -1;
    std::atomic<bool> is_over = false;
    std::thread other([&] {
        while (!is_over) {
            const int fd = sender.exchange(-1);
            if (fd >= 0) {
                (void)send_packet(fd, std::array{std::byte{7}}, {}, Deadline::in(kLimit));
                ::close(fd);
            }
        }
    });
    int lost = 0;
    int delay = 0;
    const auto end = std::chrono::steady_clock::now() + 1s;
    while (std::chrono::steady_clock::now() < end) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                             ends.data()) == 0);
        const UniqueFd ours(ends[0]);
        sender = ends[1];
        delay = (delay + 1) % 2000;  // so that both ends are at it in the same moment now and then
        for (std::atomic<int> turn = 0; turn < delay; ++turn) {
        }
        const auto packet = receive_packet(ours.get(), Deadline::in(kLimit));
        lost += packet && packet->bytes.size() == 1 ? 0 : 1;
    }
    is_over = true;
    other.join();

    CHECK(lost == 0);
}

TEST_CASE("a forked child has no shared memory, and its exit harms nobody") {
    const std::array<std::size_t, 1> segments{4096};
    const auto groups = LocalGroup::among_threads(1, segments);
    REQUIRE(groups.has_value());
    const auto memory = groups->front()->segment(0);

    const pid_t child = ::fork();
    if (child == 0) {
        // Readable memory would be written to the pipe; memory that is not there is EFAULT.
        std::array<int, 2> ends{};
        const bool is_there = ::pipe(ends.data()) == 0 && ::write(ends[1], memory.data(), 1) == 1;
        ::_exit(is_there ? 1 : 0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);

    CHECK(status == 0);
    CHECK((::fcntl(groups->front()->wakeup_descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
    memory.front() = std::byte{1};
}

}  // namespace
}  // namespace hvd::coll
