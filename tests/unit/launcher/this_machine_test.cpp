// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/this_machine.hpp"

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <vector>

using hvd::Errc;
using hvd::launch::aliases_in;
using hvd::launch::Host;
using hvd::launch::is_this_machine;
using hvd::launch::place_hosts;
using hvd::launch::PlacedHost;
using hvd::launch::this_machine;
using hvd::launch::ThisMachine;

namespace {

ThisMachine node1() {
    return {.hostname = "node1.example.com",
            .aliases = {"trainer"},
            .addresses = {"10.0.0.5", "fe80::5"}};
}

}  // namespace

TEST_CASE("this machine answers to its names and addresses") {
    const auto* name =
        GENERATE("localhost", "LOCALHOST", "127.0.0.1", "127.3.2.1", "[::1]", "[0:0:0:0:0:0:0:1]",
                 "node1", "Node1", "node1.example.com", "trainer", "10.0.0.5", "[fe80::5]",
                 "[fe80::5%eth0]", "[FE80::0:5]");
    CAPTURE(name);

    CHECK(is_this_machine(name, node1()));
}

TEST_CASE("another machine is not this machine") {
    const auto* name = GENERATE("node2", "node1.other.com", "node", "10.0.0.6", "[fe80::6]",
                                "128.0.0.1", "local", "");
    CAPTURE(name);

    CHECK_FALSE(is_this_machine(name, node1()));
}

TEST_CASE("a machine without a name does not answer to the empty one") {
    CHECK_FALSE(is_this_machine("node1", {.hostname = "", .aliases = {}, .addresses = {}}));
}

TEST_CASE("/etc/hosts gives the names on lines of our own addresses") {
    constexpr auto kText =
        "127.0.0.1\tlocalhost\n"
        "127.0.1.1 node1.lan node1 # us\n"
        "# 127.0.0.1 commented\n"
        "10.0.0.5   trainer\r\n"
        "10.0.0.6   other\n"
        "broken\n"
        "::1 ip6-localhost";

    CHECK(aliases_in(kText, {"10.0.0.5"}) ==
          std::vector<std::string>{"localhost", "node1.lan", "node1", "trainer", "ip6-localhost"});
}

TEST_CASE("several names of this machine are one host, with their slots summed") {
    const auto placed = place_hosts(
        {{"a", 1}, {"node1", 2}, {"b", 1}, {"127.0.0.1", 3}, {"node1", 1, "me"}}, node1());
    const auto unnamed = place_hosts({}, node1());

    REQUIRE(placed);
    CHECK(*placed == std::vector<PlacedHost>{{{"a", 1}, false},
                                             {{"node1", 5}, true},
                                             {{"b", 1}, false},
                                             {{"node1", 1, "me"}, false}});
    REQUIRE(unnamed);
    CHECK(*unnamed == std::vector<PlacedHost>{{{"localhost"}, true}});
    CHECK_FALSE(place_hosts({{"node1", 2}, {"127.0.0.1"}}, node1()));
}

TEST_CASE("the kernel's own hostname is this machine") {
    const auto machine = this_machine();

    REQUIRE_FALSE(machine.hostname.empty());
    CHECK(is_this_machine(machine.hostname, machine));
}
