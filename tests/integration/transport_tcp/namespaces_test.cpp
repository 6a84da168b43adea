// SPDX-License-Identifier: Apache-2.0
//
// Ranks in network namespaces of their own: what is different between hosts.
#include "collectives/base/unique_fd.hpp"
#include "collectives/tcp/factory.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "tests/support/file_store.hpp"
#include "tests/support/proc_group.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/test_main.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

namespace hvd::coll::net {
namespace {

using namespace std::chrono_literals;
using test::FileStore;

void require(bool holds, const std::string& what) {
    if (!holds) {
        throw std::runtime_error(what);
    }
}

void run(const std::string& command) {
    // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): a test, of fixed words
    require(std::system(command.c_str()) == 0, command);
}

std::string wait_for(FileStore& store, const std::string& key) {
    const auto bytes = store.get(key, Deadline::in(20s));
    require(bytes.has_value(), "nobody put " + key);
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

void tell(FileStore& store, const std::string& key, const std::string& value) {
    require(store.put(key, std::as_bytes(std::span(value))).has_value(), "put");
}

/// Two hosts with cables; both also have a bridge of their own with the same address, as docker
/// makes it, which leads nowhere.
void become_host(int host, FileStore& store, const std::vector<std::string>& cables = {"cable"}) {
    require(::unshare(CLONE_NEWNET) == 0, "unshare");
    run("ip link set lo up");
    run("ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && "
        "ip link set docker0 up");
    tell(store, "pid" + std::to_string(host), std::to_string(::getpid()));
    if (host == 0) {
        for (const auto& cable : cables) {
            run("ip link add " + cable + " type veth peer name " + cable + " netns " +
                wait_for(store, "pid1"));
        }
        tell(store, "cables", "laid");
    }
    (void)wait_for(store, "cables");
    int network = 99;
    for (const auto& cable : cables) {
        run("ip addr add 10." + std::to_string(network++) + ".0." + std::to_string(host + 1) +
            "/24 dev " + cable + " && ip link set " + cable + " up");
    }
    tell(store, "up" + std::to_string(host), "up");
    (void)wait_for(store, "up" + std::to_string(1 - host));
}

/// A further process of a host.
void enter_host(int host, FileStore& store) {
    (void)wait_for(store, "up" + std::to_string(host));
    const auto name = "/proc/" + wait_for(store, "pid" + std::to_string(host)) + "/ns/net";
    const UniqueFd network(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
    require(::setns(network.get(), CLONE_NEWNET) == 0, "setns");
}

void make_data_links(Mesh& mesh) {
    const auto deadline = Deadline::in(20s);
    for (int peer = 0; peer < mesh.size(); ++peer) {
        if (peer != mesh.rank()) {
            mesh.request_data_connection(peer);
        }
    }
    for (int peer = 0; peer < mesh.size(); ++peer) {
        while (peer != mesh.rank() && !mesh.peer(peer).data.is_open()) {
            const auto status = mesh.data_connection_status(peer);
            require(status.has_value(), status ? "" : status.error().message);
            require(mesh.reactor().wait(deadline), "no data link");
            mesh.reactor().dispatch();
        }
    }
}

Result<std::unique_ptr<Mesh>> connect_pair(FileStore& store, int rank, std::chrono::seconds lease) {
    return Mesh::connect(store,
                         {.rank = rank,
                          .size = 2,
                          .host = "h" + std::to_string(rank),
                          .prefix = "w/",
                          .lease = lease},
                         Deadline::in(20s));
}

/// Packets on the cable are lost from now on.
void cut() {
    run("nft -f - <<'END'\ntable inet cut { chain in { type filter hook input priority 0; "
        "iifname \"cable\" drop; }; }\nEND");
}

void mend() {
    run("nft delete table inet cut");
}

/// Dispatches the mesh's reactor until the condition holds.
template <class Condition>
void dispatch_until(Mesh& mesh, std::chrono::seconds limit, Condition condition) {
    const auto deadline = Deadline::in(limit);
    while (!condition()) {
        require(!deadline.has_passed(), "it did not happen in time");
        (void)mesh.reactor().wait(Deadline::in(50ms));
        mesh.reactor().dispatch();
    }
}

/// Moves what can be moved now.
std::size_t send_some(Connection& connection) {
    static std::array<std::byte, 1 << 16> bytes{};
    const iovec part{bytes.data(), bytes.size()};
    return connection.send({&part, 1});
}
std::size_t recv_some(Connection& connection) {
    static std::array<std::byte, 1 << 16> bytes{};
    const iovec part{bytes.data(), bytes.size()};
    return connection.recv({&part, 1});
}

}  // namespace

TEST_CASE("a cut between hosts is seen by both within the lease, whether they send or not") {
    if (::geteuid() != 0) {
        test::skip("network namespaces need root");
    }
    const test::TempDir folder;

    const auto ends = test::run_ranks(2, [&](int rank) {
        FileStore store(folder.path());
        become_host(rank, store);
        const auto met = connect_pair(store, rank, 2s);
        require(met.has_value(), met ? "" : met.error().message);
        auto& mesh = **met;
        auto& peer = mesh.peer(1 - rank);
        make_data_links(mesh);
        cut();
        tell(store, "cut" + std::to_string(rank), "cut");
        (void)wait_for(store, "cut" + std::to_string(1 - rank));
        if (rank == 0) {
            (void)send_some(peer.data);  // of rank 1 nothing is on its way
        }
        dispatch_until(mesh, 8s, [&] {
            (void)recv_some(peer.control);
            (void)recv_some(peer.data);
            return peer.control.is_closed() && peer.data.is_closed();
        });
        for (const auto* connection : {&peer.control, &peer.data}) {
            const auto text = mesh.end_of(1 - rank, *connection).message;
            const std::string own = rank == 0 ? "h0 (10.99.0.1)" : "h1 (10.99.0.2)";
            const std::string other = rank == 0 ? "h1 (10.99.0.2)" : "h0 (10.99.0.1)";
            require(text.starts_with("hosts " + own + " and " + other +
                                     " do not reach each other any more"),
                    text);
        }
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("neither a short cut nor a peer that reads nothing ends a connection") {
    if (::geteuid() != 0) {
        test::skip("network namespaces need root");
    }
    const test::TempDir folder;

    const auto ends = test::run_ranks(2, [&](int rank) {
        FileStore store(folder.path());
        become_host(rank, store);
        const auto met = connect_pair(store, rank, 2s);
        require(met.has_value(), met ? "" : met.error().message);
        auto& mesh = **met;
        auto& peer = mesh.peer(1 - rank);
        make_data_links(mesh);
        const auto began = Deadline::Clock::now();
        constexpr std::size_t kBytes = 64 << 20;
        std::size_t moved = 0;
        if (rank == 1) {
            std::this_thread::sleep_for(1s);
            cut();
            std::this_thread::sleep_for(700ms);
            mend();
            std::this_thread::sleep_for(5s);  // longer than two leases: the sender has no room
        }
        dispatch_until(mesh, 30s, [&] {
            for (std::size_t step = 1; step != 0 && moved < kBytes; moved += step) {
                step = rank == 0 ? send_some(peer.data) : recv_some(peer.data);
            }
            (void)recv_some(peer.control);
            const auto& connection = peer.data.is_closed() ? peer.data : peer.control;
            require(!connection.is_closed(), mesh.end_of(1 - rank, connection).message);
            return moved >= kBytes;
        });
        require(Deadline::Clock::now() - began > 5s, "rank 0 had room for everything");
        tell(store, "done" + std::to_string(rank), "done");
        (void)wait_for(store, "done" + std::to_string(1 - rank));
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("between hosts the cable is found, whatever else there is") {
    if (::geteuid() != 0) {
        test::skip("network namespaces need root");
    }
    const test::TempDir folder;

    const auto ends = test::run_ranks(2, [&](int rank) {
        FileStore store(folder.path());
        become_host(rank, store);
        auto mesh = Mesh::connect(
            store, {.rank = rank, .size = 2, .host = "h" + std::to_string(rank), .prefix = "w/"},
            Deadline::in(20s));
        require(mesh.has_value(), mesh ? "" : mesh.error().message);
        if (rank == 1) {
            const auto& address = (*mesh)->peer(0).address;
            require(address.starts_with("10.99.0.1:") && address.ends_with(" (cable)"), address);
        }
        std::vector<float> data(100'000, static_cast<float>(rank + 1));
        auto* const bytes = reinterpret_cast<std::byte*>(data.data());
        const auto backend = tcp::create(**mesh);
        const auto communicator = backend->open(world_of({.rank = rank, .size = 2}), {});
        const auto work = communicator->start(
            {.op = Op::allreduce, .segments = {{.in = bytes, .out = bytes, .count = data.size()}}});
        require(work.has_value(), "start");
        const auto deadline = Deadline::in(20s);
        for (auto progress = (*work)->poll();
             progress.has_value() && *progress == Work::Progress::pending;
             progress = (*work)->poll()) {
            require((*mesh)->reactor().wait(deadline), "the sum did not come");
        }
        require(data.front() == 3 && data.back() == 3, "sum");
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("one address for each pair of hosts is found within a second beside dead ones") {
    if (::geteuid() != 0) {
        test::skip("network namespaces need root");
    }
    const test::TempDir folder;

    const auto ends = test::run_ranks(5, [&](int rank) {
        // Two ranks on the first host, three on the second; what the first two cables carry is
        // lost.
        const int host = rank < 2 ? 0 : 1;
        const bool is_first = rank == 0 || rank == 2;
        FileStore store(folder.path());
        if (is_first) {
            become_host(host, store, {"dead0", "dead1", "good", "spare"});
            run("nft -f - <<'END'\ntable inet lab { chain in { type filter hook input priority 0; "
                "iifname \"dead*\" drop; }; }\nEND");
        } else {
            enter_host(host, store);
        }
        tell(store, "ready" + std::to_string(rank), "ready");
        for (int other = 0; other < 5; ++other) {
            (void)wait_for(store, "ready" + std::to_string(other));
        }
        const auto began = Deadline::Clock::now();
        auto mesh = Mesh::connect(store,
                                  {.rank = rank,
                                   .size = 5,
                                   .host = "h" + std::to_string(host),
                                   .prefix = "w/",
                                   .host_id = "agent" + std::to_string(host)},
                                  Deadline::in(20s));
        require(mesh.has_value(), mesh ? "" : mesh.error().message);
        require(Deadline::Clock::now() - began < 1s, "it took too long");
        make_data_links(**mesh);
        for (int peer = 0; peer < rank; ++peer) {
            const auto& address = (*mesh)->peer(peer).address;
            const bool is_near = (peer < 2) == (host == 0);
            require(address.starts_with(is_near ? "127.0.0.1:" : "10.101.0.1:"), address);
        }
        const auto& ways = (*mesh)->host_routes();
        require(ways.size() == 1 && ways[0].here.interface == "good", "another interface");
        require(to_string(ways[0].there) == (host == 0 ? "10.101.0.2" : "10.101.0.1"), "there");
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

TEST_CASE("where no address of a host answers, all its ranks say which were tried") {
    if (::geteuid() != 0) {
        test::skip("network namespaces need root");
    }
    const test::TempDir folder;

    const auto ends = test::run_ranks(3, [&](int rank) {
        FileStore store(folder.path());
        const int host = rank == 0 ? 0 : 1;
        if (rank < 2) {
            become_host(host, store);
            if (host == 0) {
                run("nft -f - <<'END'\ntable inet lab { chain in { type filter hook input priority "
                    "0; "
                    "iifname \"cable\" tcp dport 1-65535 reject with tcp reset; }; }\nEND");
            }
        } else {
            enter_host(host, store);
        }
        auto mesh = Mesh::connect(store,
                                  {.rank = rank,
                                   .size = 3,
                                   .host = "h" + std::to_string(host),
                                   .prefix = "w/",
                                   .host_id = "agent" + std::to_string(host)},
                                  Deadline::in(3s));
        require(!mesh.has_value(), "it was reached?");
        const auto& message = mesh.error().message;
        if (rank > 0) {
            require(message.find(" on host h0) cannot be reached from rank 1 on host h1: "
                                 "10.99.0.1:") != std::string::npos &&
                        message.find(" (cable): connect: Connection refused") != std::string::npos,
                    message);
        }
        return 0;
    });

    CHECK(test::failures(ends) == "");
}

}  // namespace hvd::coll::net
