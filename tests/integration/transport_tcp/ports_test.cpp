// SPDX-License-Identifier: Apache-2.0
//
// Where ranks listen.
#include "collectives/rendezvous/memory_store.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "collectives/transport/tcp/pending_connection.hpp"
#include "collectives/transport/tcp/rank_record.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

#include <unistd.h>

namespace hvd::coll::net {
namespace {

constexpr std::chrono::seconds kLimit{20};

MeshOptions options_of(int rank, int size) {
    return {.rank = rank, .size = size, .host = "host" + std::to_string(rank), .prefix = "w/"};
}

Result<std::unique_ptr<Mesh>> meet(Store& store, const MeshOptions& options) {
    return Mesh::connect(store, options, Deadline::in(kLimit));
}

void require(bool holds, const std::string& what) {
    if (!holds) {
        throw std::runtime_error(what);
    }
}

}  // namespace

TEST_CASE("ranks listen on the ports and interfaces they were given, or say why not") {
    MemoryStore store;
    const HostAddress lo{.interface = "lo", .ip = *parse_ip("127.0.0.1"), .prefix = 8};
    // A range that is free, as far as one can know.
    const auto first = listen_at(lo, {}, 0).value().endpoint.port;
    const PortRange ports{first, static_cast<std::uint16_t>(std::min(first + 5, 65'535))};

    const auto failed = test::run_thread_ranks(3, [&](int rank) {
        auto options = options_of(rank, 3);
        options.interfaces = *parse_interface_filter("127.0.0.0/8");
        options.ports = ports;
        auto mesh = meet(store, options);
        require(mesh.has_value(), mesh ? "" : mesh.error().message);
        const auto bytes = store.get("w/rank/" + std::to_string(rank), Deadline::in(kLimit));
        const auto record = decode_rank_record(bytes.value());
        for (const auto& endpoint : record.value().endpoints) {
            require(endpoint.port >= ports.first && endpoint.port <= ports.last, "port");
            require(endpoint.at.interface == "lo", "interface");
        }
        return 0;
    });
    CHECK(failed == "");

    const auto taken = listen_at(lo, {}, 0);
    REQUIRE(taken);
    auto options = options_of(0, 2);
    options.interfaces = *parse_interface_filter("127.0.0.1");
    options.ports = {taken->endpoint.port, taken->endpoint.port};
    MemoryStore other;
    const auto refused = meet(other, options);
    REQUIRE_FALSE(refused);
    const auto port = std::to_string(taken->endpoint.port);
    CHECK_THAT(refused.error().message,
               Catch::StartsWith("no port from " + port + " to " + port +
                                 " is free at 127.0.0.1 (HOROVOD_PORT_RANGE); taken: " + port +
                                 " by pid " + std::to_string(::getpid()) + " of user ") &&
                   Catch::Contains("integration_transport_tcp"));
}

}  // namespace hvd::coll::net
