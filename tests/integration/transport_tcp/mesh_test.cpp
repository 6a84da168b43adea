// SPDX-License-Identifier: Apache-2.0
//
// How ranks find and recognise each other over the network, also beside connections that are not
// authenticated.
#include "collectives/transport/tcp/mesh.hpp"

#include "collectives/rendezvous/memory_store.hpp"
#include "collectives/transport/tcp/gather.hpp"
#include "collectives/transport/tcp/pending_connection.hpp"
#include "collectives/transport/tcp/rank_record.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>

namespace hvd::coll::net {
namespace {

using namespace std::chrono_literals;
using test::run_thread_ranks;

constexpr auto kLimit = 20s;

MeshOptions options_of(int rank, int size) {
    return {.rank = rank, .size = size, .host = "host" + std::to_string(rank), .prefix = "w/"};
}

Result<std::unique_ptr<Mesh>> meet(Store& store,
                                   const MeshOptions& options,
                                   Deadline deadline = Deadline::in(kLimit)) {
    return Mesh::connect(store, options, deadline);
}

void require(bool holds, const std::string& what) {
    if (!holds) {
        throw std::runtime_error(what);
    }
}

RankRecord record_of(Store& store, int rank) {
    const auto bytes = store.get("w/rank/" + std::to_string(rank), Deadline::in(kLimit));
    require(bytes.has_value(), "no record");
    return decode_rank_record(*bytes).value();
}

/// The records that rank 0 of a world of two would put, without a rank 0.
void put_rank_0(Store& store, const RankRecord& record) {
    const std::vector both{record, RankRecord{}};
    require(store.put("w/rank/0", encode(record)).has_value(), "put");
    require(store.put("w/ranks/0", encode(both)).has_value(), "put");
}

ListenAddress loopback_of(const RankRecord& record) {
    for (const auto& endpoint : record.endpoints) {
        if (is_loopback(endpoint.at.ip)) {
            return endpoint;
        }
    }
    throw std::runtime_error("no loopback address");
}

ListenAddress closed_port() {
    const HostAddress lo{.interface = "lo", .ip = *parse_ip("127.0.0.1"), .prefix = 8};
    return listen_at(lo, {}, 0).value().endpoint;  // closed again when this returns
}

bool say(int socket, std::string_view text) {
    return ::send(socket, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
}

UniqueFd connect_now(const ListenAddress& to) {
    const auto address = to_socket_address(to.at.ip, to.port);
    UniqueFd socket(::socket(to.at.ip.is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
    if (::connect(socket.get(), address.get(), address.size) != 0) {
        socket.reset();
    }
    return socket;
}

/// Connections of no use, which stay open.
void annoy(const ListenAddress& endpoint, std::vector<UniqueFd>& connections) {
    for (int count = 0; count < 150; ++count) {
        connections.push_back(connect_now(endpoint));
        const auto& socket = connections.back();
        if (count % 3 == 0) {
            (void)say(socket.get(), "GET / HTTP/1.1\r\n\r\n");
        } else if (count % 3 == 1) {
            (void)say(socket.get(), "HVDLINK\n\x01");
        }
    }
}

/// Dispatches until the condition holds.
template <class Condition>
void dispatch_until(Mesh& mesh, Condition holds, const std::string& what) {
    const auto deadline = Deadline::in(kLimit);
    while (!holds()) {
        require(mesh.reactor().wait(deadline), what);
        mesh.reactor().dispatch();
    }
}

void make_data_link(Mesh& mesh, int peer) {
    mesh.request_data_connection(peer);
    dispatch_until(
        mesh,
        [&] {
            const auto status = mesh.data_connection_status(peer);
            require(status.has_value(), status ? "" : status.error().message);
            return mesh.peer(peer).data.is_open();
        },
        "no link with rank " + std::to_string(peer));
}

void say_to(Connection& link, int word) {
    auto byte = static_cast<std::byte>(word);
    const iovec out{.iov_base = &byte, .iov_len = 1};
    require(link.send({&out, 1}) == 1, "nothing was sent");
}

void expect_from(Mesh& mesh, Connection& link, int word) {
    std::byte byte{};
    const iovec in{.iov_base = &byte, .iov_len = 1};
    dispatch_until(
        mesh,
        [&] {
            require(!link.is_closed(), "closed");
            return link.recv({&in, 1}) == 1;
        },
        "nothing came");
    require(byte == static_cast<std::byte>(word), "another rank's byte");
}

/// The links that there are.
std::vector<Connection*> links_with(Mesh& mesh, int peer) {
    std::vector<Connection*> links;
    for (Connection* link : {&mesh.peer(peer).control, &mesh.peer(peer).data}) {
        if (link->is_open()) {
            links.push_back(link);
        }
    }
    return links;
}

/// Makes all data links; then one byte from everybody to everybody on all lanes.
void check_lanes(Mesh& mesh) {
    for (int peer = 0; peer < mesh.size(); ++peer) {
        if (peer != mesh.rank()) {
            mesh.request_data_connection(peer);
        }
    }
    for (int peer = 0; peer < mesh.size(); ++peer) {
        if (peer != mesh.rank()) {
            make_data_link(mesh, peer);
            const bool has_control = peer == 0 || mesh.rank() == 0;
            require(links_with(mesh, peer).size() == (has_control ? 2U : 1U), "number of links");
            for (Connection* link : links_with(mesh, peer)) {
                say_to(*link, mesh.rank() + 1);
            }
        }
    }
    for (int peer = 0; peer < mesh.size(); ++peer) {
        if (peer != mesh.rank()) {
            for (Connection* link : links_with(mesh, peer)) {
                expect_from(mesh, *link, peer + 1);
            }
        }
    }
}

}  // namespace

TEST_CASE(
    "every rank is linked with rank 0, every pair that wants it with each other; then nothing "
    "listens") {
    const int size = GENERATE(2, 3, 8);
    MemoryStore store;
    std::atomic<int> looked{0};

    const auto failed = run_thread_ranks(size, [&](int rank) {
        auto mesh = meet(store, options_of(rank, size));
        require(mesh.has_value(), mesh ? "" : mesh.error().message);
        for (int peer = 0; peer < size; ++peer) {
            const bool has_link = rank != peer && (rank == 0 || peer == 0);
            require((*mesh)->peer(peer).control.is_open() == has_link, "control");
            require(!(*mesh)->peer(peer).data.is_open(), "a data link that nobody wanted");
        }
        require((*mesh)->listening_at().empty() == (rank == size - 1), "who listens");
        ++looked;
        const auto limit = Deadline::in(kLimit);
        while (looked < size && !limit.has_passed()) {
            std::this_thread::yield();
        }
        check_lanes(**mesh);
        require((*mesh)->listening_at().empty(), "it still listens");
        for (int peer = 0; peer < rank; ++peer) {
            require((*mesh)->peer(peer).identity.host == "host" + std::to_string(peer), "host");
            require((*mesh)->peer(peer).address.starts_with("127.0.0.1:"),
                    (*mesh)->peer(peer).address);
        }
        require(!connect_now(loopback_of(record_of(store, rank == size - 1 ? 0 : rank))),
                "somebody still listens");
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("the lowest rank of each host leads it") {
    struct World {
        std::vector<std::string> hosts;  // of the ranks
        std::vector<int> leaders;
    };
    const auto world =
        GENERATE(World{{"a", "a", "a"}, {0, 0, 0}}, World{{"a", "b", "a", "b"}, {0, 1, 0, 1}},
                 World{{"a", "a", "b"}, {0, 0, 2}});
    CAPTURE(world.hosts);
    MemoryStore store;
    const auto size = static_cast<int>(world.hosts.size());

    const auto failed = run_thread_ranks(size, [&](int rank) {
        auto options = options_of(rank, size);
        options.host_id = world.hosts[static_cast<std::size_t>(rank)];
        const auto mesh = meet(store, options);
        require(mesh.has_value(), mesh ? "" : mesh.error().message);
        require((*mesh)->host_leaders() == world.leaders, "other leaders");
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("all ranks gather a byte of each over the control connections") {
    const int size = GENERATE(2, 5);
    MemoryStore store;

    const auto failed = run_thread_ranks(size, [&](int rank) {
        const auto mesh = meet(store, options_of(rank, size));
        require(mesh.has_value(), mesh ? "" : mesh.error().message);
        for (int round = 0; round < 3; ++round) {
            const auto all =
                gather_bytes(**mesh, std::byte(10 * round + rank), Deadline::in(kLimit));
            require(all.has_value(), all ? "" : all.error().message);
            for (int peer = 0; peer < size; ++peer) {
                require(all->at(static_cast<std::size_t>(peer)) == std::byte(10 * round + peer),
                        "another byte");
            }
        }
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("garbage, silence and half a handshake at a listening socket harm nobody") {
    MemoryStore store;

    const auto failed = run_thread_ranks(3, [&](int rank) {
        std::vector<UniqueFd> connections;
        if (rank == 2) {
            // Before the last rank comes, there is time for others.
            for (const int victim : {0, 1}) {
                const auto endpoint = loopback_of(record_of(store, victim));
                annoy(endpoint, connections);
            }
        }
        auto mesh = meet(store, options_of(rank, 3));
        require(mesh.has_value(), mesh ? "" : mesh.error().message);
        // And again, where the listeners are open for the data links.
        for (const int victim : {0, 1}) {
            annoy(loopback_of(record_of(store, victim)), connections);
        }
        check_lanes(**mesh);
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("a rank with another key is refused, by name and address") {
    MemoryStore ours;
    MemoryStore theirs;

    const auto failed = run_thread_ranks(2, [&](int rank) {
        if (rank == 0) {
            const auto mesh = meet(ours, options_of(0, 2), Deadline::in(2s));
            require(!mesh.has_value() && mesh.error().code == Errc::timed_out, "not refused");
            require(mesh.error().message.find("has no connection with rank 1 (pid 77 on host "
                                              "elsewhere)") != std::string::npos,
                    mesh.error().message);
            return 0;
        }
        const auto lure = record_of(ours, 0);
        put_rank_0(theirs, lure);
        require(ours.put("w/rank/1",
                         encode(RankRecord{
                             .host = "elsewhere", .pid = 77, .network = {}, .endpoints = {}}))
                    .has_value(),
                "put");
        auto options = options_of(1, 2);
        options.key.fill(std::byte{1});
        const auto mesh = meet(theirs, options);
        require(!mesh.has_value(), "it was accepted");
        require(mesh.error().message.find("rank 0 (pid ") == 0, mesh.error().message);
        require(mesh.error().message.find(to_string(loopback_of(lure)) + " (lo): ") !=
                    std::string::npos,
                mesh.error().message);
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("an address at which nobody listens is named with the reason") {
    MemoryStore store;
    const auto endpoint = closed_port();
    // The own network's name, so that loopback counts.
    const auto failed = run_thread_ranks(2, [&](int rank) {
        if (rank == 0) {
            put_rank_0(store, {.host = "node0",
                               .pid = 12,
                               .network = record_of(store, 1).network,
                               .endpoints = {endpoint}});
            return 0;
        }
        const auto mesh = meet(store, options_of(1, 2));
        require(!mesh.has_value() && mesh.error().code == Errc::unavailable, "reached?");
        require(mesh.error().message ==
                    "rank 0 (pid 12 on host node0) cannot be reached from rank 1 on host host1: " +
                        to_string(endpoint) + " (lo): connect: Connection refused" + kHasLeft,
                mesh.error().message);
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("a peer that lets one in and then says nothing is given up in time, by its number") {
    MemoryStore store;
    const HostAddress lo{.interface = "lo", .ip = *parse_ip("127.0.0.1"), .prefix = 8};
    const auto silent = listen_at(lo, {}, 0).value();  // the kernel accepts; nobody answers
    const auto failed = run_thread_ranks(2, [&](int rank) {
        if (rank == 0) {
            put_rank_0(store, {.host = "node0",
                               .pid = 12,
                               .network = record_of(store, 1).network,
                               .endpoints = {silent.endpoint}});
            return 0;
        }
        const auto start = Deadline::Clock::now();
        const auto mesh = meet(store, options_of(1, 2), Deadline::in(3s));
        require(!mesh.has_value() && mesh.error().code == Errc::timed_out, "not in time");
        require(Deadline::Clock::now() - start < 10s, "late");
        require(mesh.error().message.find("rank 0 (pid 12 on host node0)") != std::string::npos &&
                    mesh.error().message.find(to_string(silent.endpoint) +
                                              " (lo): no answer yet") != std::string::npos,
                mesh.error().message);
        return 0;
    });

    CHECK(failed == "");
}

TEST_CASE("loopback is not offered to another host") {
    MemoryStore store;
    put_rank_0(store,
               {.host = "node0", .pid = 12, .network = "another", .endpoints = {closed_port()}});

    const auto mesh = meet(store, options_of(1, 2));

    REQUIRE_FALSE(mesh);
    CHECK(
        mesh.error().message.starts_with("rank 0 (pid 12 on host node0) has no address that host "
                                         "host1 could reach, only 127.0.0.1:"));
}

TEST_CASE("a rank that does not come is missed by its number, by all, within the deadline") {
    MemoryStore store;
    const auto start = Deadline::Clock::now();

    const auto failed = run_thread_ranks(2, [&](int rank) {
        const auto mesh = meet(store, options_of(rank, 3), Deadline::in(300ms));
        require(!mesh && mesh.error().code == Errc::timed_out, "it did not time out");
        require(mesh.error().message.starts_with("rank 2 has not come to hvd.init(): "),
                mesh.error().message);
        require(mesh.error().message.ends_with(kMoreTime), mesh.error().message);
        return 0;
    });

    CHECK(failed == "");
    CHECK(Deadline::Clock::now() - start < 3s);
}

TEST_CASE("the addresses of more ranks than one list holds reach everybody") {
    MemoryStore store;
    constexpr int kSize = 66;

    const auto failed = run_thread_ranks(kSize, [&](int rank) {
        auto options = options_of(rank, kSize);
        options.host = "node";
        const auto mesh = meet(store, options);
        require(mesh.has_value(), mesh ? "" : mesh.error().message);
        for (const int peer : {0, 63, 64, 65}) {
            if (peer < rank) {
                const auto& endpoints = (*mesh)->data_endpoints_of(peer);
                require(
                    endpoints.size() == 1 && endpoints[0] == loopback_of(record_of(store, peer)),
                    "endpoints");
            }
        }
        return 0;
    });

    CHECK(failed == "");
}

}  // namespace hvd::coll::net
