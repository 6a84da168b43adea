// SPDX-License-Identifier: Apache-2.0
//
// Data links, each made when both its ranks first want it; and what may come between.
#include "collectives/process_set.hpp"
#include "collectives/tcp/tcp_endpoint.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "tests/support/file_store.hpp"
#include "tests/support/proc_group.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::coll::net {
namespace {

using namespace std::chrono_literals;
using test::FileStore;
using test::run_ranks;

constexpr auto kLimit = 20s;

void require(bool holds, const std::string& what) {
    if (!holds) {
        throw std::runtime_error(what);
    }
}

/// A rank of a world whose ranks are all on one host.
struct Rank {
    FileStore store;
    std::unique_ptr<Mesh> mesh;

    Rank(const test::TempDir& folder, int rank, int size, std::chrono::milliseconds limit = kLimit)
        : store(folder.path()) {
        auto met = Mesh::connect(
            store,
            {.rank = rank, .size = size, .host = "node", .prefix = "w/", .link_limit = limit},
            Deadline::in(kLimit));
        require(met.has_value(), met ? "" : met.error().message);
        mesh = std::move(met).value();
    }

    void tell(const std::string& what) {
        require(store.put(what, std::vector<std::byte>(1)).has_value(), "put " + what);
    }
    void await(const std::string& what) {
        require(store.get(what, Deadline::in(kLimit)).has_value(), "nobody put " + what);
    }

    /// Dispatches until the condition holds.
    void dispatch_until(const std::function<bool()>& holds, const std::string& what) const {
        const auto deadline = Deadline::in(kLimit);
        while (!holds()) {
            require(mesh->reactor().wait(deadline), what);
            mesh->reactor().dispatch();
        }
    }

    /// How the wish for a data link ends, if it does not come to be.
    [[nodiscard]] Error refusal_of(int peer) const {
        mesh->request_data_connection(peer);
        dispatch_until([&] { return !mesh->data_connection_status(peer); }, "no refusal");
        return mesh->data_connection_status(peer).error();
    }

    /// One step whose messages have been added. Returns how it ended.
    [[nodiscard]] Status run(tcp::TcpEndpoint& endpoint) const {
        const auto deadline = Deadline::in(kLimit);
        endpoint.post();
        while (true) {
            HVD_TRY(const bool is_over, endpoint.wait());
            if (is_over) {
                return ok();
            }
            require(mesh->reactor().wait(deadline), "the step does not end");
            mesh->reactor().dispatch();
        }
    }
};

/// Of this process, but for those to the test's own pipes.
int count_sockets() {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
        count += !gone && target.starts_with("socket:") ? 1 : 0;
    }
    return count;
}

UniqueFd connected(const ListenAddress& to) {
    const auto address = to_socket_address(to.at.ip, to.port);
    UniqueFd socket(::socket(to.at.ip.is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
    if (::connect(socket.get(), address.get(), address.size) != 0) {
        socket.reset();
    }
    return socket;
}

bool is_heard_at(const ListenAddress& to) {
    return bool(connected(to));
}

}  // namespace

TEST_CASE("ranks that talk to their neighbours only are connected with no others") {
    constexpr int kSize = 8;
    const test::TempDir folder;

    const auto ends = run_ranks(kSize, [&](int rank) {
        const int before = count_sockets();
        const Rank self(folder, rank, kSize);
        auto& mesh = *self.mesh;
        const int next = (rank + 1) % kSize;
        const int previous = (rank + kSize - 1) % kSize;
        tcp::Multiplexer multiplexer(mesh);
        tcp::TcpEndpoint endpoint(multiplexer, world_of({.rank = rank, .size = kSize}));
        // A sum that goes around, to both sides at once.
        std::array<std::byte, 2> passed{std::byte(rank), std::byte(rank)};
        int sum = rank;
        for (int step = 1; step < kSize; ++step) {
            std::array<std::byte, 2> got{};
            endpoint.send(next, {&passed[0], 1});
            endpoint.send(previous, {&passed[1], 1});
            endpoint.recv(previous, {&got[0], 1});
            endpoint.recv(next, {&got[1], 1});
            const auto ended = self.run(endpoint);
            require(ended.has_value(), ended ? "" : ended.error().message);
            require(got[0] == std::byte((rank + kSize - step) % kSize), "another rank's byte");
            require(got[1] == std::byte((rank + step) % kSize), "another rank's byte");
            sum += std::to_integer<int>(got[0]);
            passed = got;
        }
        require(sum == kSize * (kSize - 1) / 2, "sum");
        for (int peer = 0; peer < kSize; ++peer) {
            const bool is_near = peer == next || peer == previous;
            require(mesh.peer(peer).data.is_open() == is_near, "data links");
        }
        const int controls = rank == 0 ? kSize - 1 : 1;
        const int listeners = static_cast<int>(mesh.listening_at().size());
        require(listeners <= 1, "it listens at more than the one address that is used");
        require(count_sockets() - before == controls + 2 + listeners,
                std::to_string(count_sockets() - before) + " sockets");
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("of a pair that wants its link at the same time, from both sides, one link comes to be") {
    const test::TempDir folder;

    const auto ends = run_ranks(2, [&](int rank) {
        for (int round = 0; round < 20; ++round) {
            const auto place = folder.path() / std::to_string(round);
            std::filesystem::create_directories(place);
            const int before = count_sockets();
            FileStore store(place);
            auto met =
                Mesh::connect(store, {.rank = rank, .size = 2, .host = "node", .prefix = "w/"},
                              Deadline::in(kLimit));
            require(met.has_value(), met ? "" : met.error().message);
            tcp::Multiplexer multiplexer(**met);
            tcp::TcpEndpoint endpoint(multiplexer, world_of({.rank = rank, .size = 2}));
            endpoint.send(1 - rank, {});
            endpoint.recv(1 - rank, {});
            const auto deadline = Deadline::in(kLimit);
            endpoint.post();
            for (auto over = endpoint.wait(); !over.value(); over = endpoint.wait()) {
                require((*met)->reactor().wait(deadline), "the step does not end");
                (*met)->reactor().dispatch();
            }
            require(count_sockets() - before == 2, "control, data and nothing else");
        }
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("a peer that dies while it is being called is named with its addresses, soon") {
    const test::TempDir folder;

    const auto ends = run_ranks(3, [&](int rank) {
        Rank self(folder, rank, 3);
        if (rank == 1) {
            // It lets rank 2 in, its kernel does, and answers nothing.
            self.tell("has met");
            self.await("called");
            ::usleep(300'000);
            (void)::raise(SIGKILL);
        }
        if (rank == 0) {
            self.await("named");
            return 0;
        }
        const auto who = self.mesh->describe(1);
        self.await("has met");
        self.mesh->request_data_connection(1);
        self.tell("called");
        const auto began = Deadline::Clock::now();
        const auto error = self.refusal_of(1);
        require(Deadline::Clock::now() - began < 10s, "late");
        require(error.code == Errc::unavailable, error.message);
        require(error.message.starts_with(who + " cannot be reached from " +
                                          self.mesh->describe(2) + " for data: 127.0.0.1:") &&
                    error.message.find(" (lo): ") != std::string::npos &&
                    error.message.ends_with(std::string("connect: Connection refused") + kHasLeft),
                error.message);
        self.tell("named");
        return 0;
    });

    CHECK(ends[0].output == "");
    CHECK(ends[0].exit_code == 0);
    CHECK(ends[1].signal == SIGKILL);
    CHECK(ends[2].output == "");
    CHECK(ends[2].exit_code == 0);
}

TEST_CASE("a peer that never answers, or never calls, is given up at the limit, by its name") {
    const test::TempDir folder;

    const auto ends = run_ranks(3, [&](int rank) {
        Rank self(folder, rank, 3, 100ms);  // ten times as long for a peer that may only be late
        const auto at = self.mesh->data_endpoints_of(1);
        if (rank == 1) {
            self.tell("has met");  // and dispatches no more
            self.await("given up 0");
            self.await("given up 2");
            return 0;
        }
        self.await("has met");
        const auto error = self.refusal_of(1);
        require(error.code == Errc::timed_out, error.message);
        const auto expected =
            rank == 2
                ? "rank 2 (pid " + std::to_string(::getpid()) +
                      " on host node) has no data connection with " + self.mesh->describe(1) +
                      " after 1 s: " + to_string(at.front()) + " (lo): no answer yet"
                : self.mesh->describe(1) + " has not connected with " + self.mesh->describe(0) +
                      " for data in 1 s, at " + to_string(self.mesh->listening_at().front());
        require(error.message == expected + kRemedy, error.message);
        self.tell("given up " + std::to_string(rank));
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("a peer that ends in the middle of a step is noticed though nobody tells") {
    const test::TempDir folder;

    const auto ends = run_ranks(2, [&](int rank) {
        Rank self(folder, rank, 2);
        std::vector<std::byte> data(1000);
        tcp::Multiplexer multiplexer(*self.mesh);
        tcp::TcpEndpoint endpoint(multiplexer, world_of({.rank = rank, .size = 2}));
        endpoint.send(1 - rank, data);
        endpoint.recv(1 - rank, data);
        const auto first = self.run(endpoint);
        require(first.has_value(), first ? "" : first.error().message);
        if (rank == 1) {
            return 0;
        }
        endpoint.recv(1, data);
        const auto began = Deadline::Clock::now();
        const auto second = self.run(endpoint);
        require(!second && second.error().code == Errc::unavailable, "it went on");
        require(
            second.error().message == self.mesh->describe(1) + " has closed its connection with " +
                                          self.mesh->describe(0) + " in the middle of a collective",
            second.error().message);
        require(Deadline::Clock::now() - began < 5s, "late");
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE(
    "a rank without a free descriptor says so to who waits, and hears again when it has one") {
    const test::TempDir folder;

    const auto ends = run_ranks(3, [&](int rank) {
        Rank self(folder, rank, 3);
        if (rank != 0) {
            self.await("full");
            self.mesh->request_data_connection(0);
            self.dispatch_until([&] { return self.mesh->peer(0).data.is_open() || rank == 1; },
                                "no link");
            self.tell("done " + std::to_string(rank));
            if (rank == 1) {
                self.await("done 2");
            }
            return 0;
        }
        const int highest = ::dup(0);
        (void)::close(highest);
        rlimit limit{};
        (void)::getrlimit(RLIMIT_NOFILE, &limit);
        const rlimit none{.rlim_cur = static_cast<rlim_t>(highest), .rlim_max = limit.rlim_max};
        self.tell("full");
        (void)::setrlimit(RLIMIT_NOFILE, &none);
        const auto error = self.refusal_of(1);
        (void)::setrlimit(RLIMIT_NOFILE, &limit);
        require(error.message.starts_with("no data connection with rank 1 (pid ") &&
                    error.message.find("ulimit -n") != std::string::npos,
                error.message);
        self.dispatch_until([&] { return self.mesh->peer(2).data.is_open(); },
                            "no connection is accepted again");
        self.await("done 2");
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("other processes at a listener cost few descriptors, and no rank a connection") {
    const test::TempDir folder;

    const auto ends = run_ranks(2, [&](int rank) {
        Rank self(folder, rank, 2);
        std::vector<UniqueFd> others;
        if (rank == 1) {
            const auto endpoint = self.mesh->data_endpoints_of(0).front();
            for (int count = 0; count < 500; ++count) {
                others.push_back(connected(endpoint));
                const auto word = count % 2 == 0 ? "HVDLINK\n" : "GET / HTTP/1.1\r\n\r\n";
                (void)::send(others.back().get(), word, std::strlen(word), MSG_NOSIGNAL);
            }
            self.tell("here");
        } else {
            self.await("here");
            const int before = count_sockets();
            while (self.mesh->reactor().wait(Deadline::in(100ms))) {
                self.mesh->reactor().dispatch();
                require(count_sockets() - before < 100, "too many sockets");
                if (self.mesh->peer(1).data.is_open()) {
                    break;
                }
            }
        }
        self.mesh->request_data_connection(1 - rank);
        self.dispatch_until([&] { return self.mesh->peer(1 - rank).data.is_open(); }, "no link");
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("a child that a rank has forked does not listen for it") {
    const test::TempDir folder;

    const auto ends = run_ranks(2, [&](int rank) {
        Rank self(folder, rank, 2);
        if (rank == 1) {
            self.await("ended");
            return 0;
        }
        const auto at = self.mesh->listening_at().front();
        require(is_heard_at(at), "it does not listen");
        const pid_t child = ::fork();
        if (child == 0) {
            self.mesh->close_in_child();
            ::pause();
            ::_exit(0);
        }
        self.mesh->stop_accepting();
        // The child may not have come to it yet.
        const auto limit = Deadline::in(kLimit);
        while (is_heard_at(at) && !limit.has_passed()) {
            std::this_thread::sleep_for(10ms);
        }
        const bool is_heard = is_heard_at(at);
        (void)::kill(child, SIGKILL);
        (void)::waitpid(child, nullptr, 0);
        require(!is_heard, "the child listens");
        self.tell("ended");
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

}  // namespace hvd::coll::net
