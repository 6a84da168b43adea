// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/join/joined_hosts.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace hvd::launch;  // NOLINT(google-build-using-namespace): the tested one

namespace {

JoinedHosts named() {
    return JoinedHosts({.hosts = {{.name = "node1", .slots = 2}, {.name = "node2.example.org"}}});
}

std::string admit(JoinedHosts& joined, const std::string& name, int slots = 0) {
    const auto admitted = joined.admit({.name = name, .address = "10.0.0.9:7", .slots = slots});
    return admitted ? *admitted : "refused: " + admitted.error().message;
}

std::vector<std::string> names(const std::vector<Host>& hosts) {
    std::vector<std::string> names;
    for (const auto& host : hosts) {
        names.push_back(host.name + (host.slots ? ":" + std::to_string(*host.slots) : ""));
    }
    return names;
}

}  // namespace

TEST_CASE("hosts of -H join under the names they have there") {
    auto joined = named();
    CHECK_FALSE(joined.is_complete());
    CHECK(joined.progress() == "0 of 2 hosts have joined; missing: node1, node2.example.org");
    CHECK(admit(joined, "node2") == "node2.example.org");
    CHECK(joined.progress() == "1 of 2 hosts have joined; missing: node1");
    CHECK(admit(joined, "NODE1.example.org") == "node1");
    CHECK(joined.is_complete());
    CHECK(names(joined.hosts()) == std::vector<std::string>{"node1:2", "node2.example.org"});
}

TEST_CASE("who is not expected is told so") {
    auto joined = named();
    CHECK(admit(joined, "node3").starts_with("refused: no host node3 is expected by -H"));
    CHECK(admit(joined, "node2.other.org").starts_with("refused: no host"));
    CHECK(admit(joined, "").starts_with("refused: its name"));
    CHECK(admit(joined, "a\nb").starts_with("refused: its name"));
}

TEST_CASE("a second one of the same name is refused with both addresses") {
    auto joined = named();
    REQUIRE(joined.admit({.name = "node1", .address = "10.0.0.1:5", .slots = 0}));
    const auto again = joined.admit({.name = "node1", .address = "10.0.0.2:6", .slots = 0});
    REQUIRE_FALSE(again);
    CHECK(again.error().message.find("10.0.0.1:5") != std::string::npos);
    CHECK(again.error().message.find("10.0.0.2:6") != std::string::npos);

    joined.leave("node1");
    CHECK(admit(joined, "node1") == "node1");
}

TEST_CASE("a number of hosts shares the ranks evenly, in the order of their names") {
    JoinedHosts joined({.count = 3, .processes = 8});
    CHECK(admit(joined, "worker-10") == "worker-10");
    CHECK(admit(joined, "worker-2") == "worker-2");
    CHECK(joined.progress() == "2 of 3 hosts have joined");
    CHECK(admit(joined, "worker-1") == "worker-1");
    CHECK(names(joined.hosts()) ==
          std::vector<std::string>{"worker-1:3", "worker-2:3", "worker-10:2"});
    CHECK(admit(joined, "worker-3") == "refused: all hosts of the job have joined");
}

TEST_CASE("who brings its slots keeps them") {
    JoinedHosts joined({.count = 3, .processes = 8});
    (void)admit(joined, "a", 5);
    (void)admit(joined, "b");
    (void)admit(joined, "c");
    CHECK(names(joined.hosts()) == std::vector<std::string>{"a:5", "b:2", "c:1"});

    JoinedHosts by_name({.hosts = {{.name = "a"}, {.name = "b", .slots = 1}}});
    (void)admit(by_name, "a", 7);
    (void)admit(by_name, "b", 7);
    CHECK(names(by_name.hosts()) == std::vector<std::string>{"a:7", "b:1"});
}

TEST_CASE("without names and number, hosts join until there is room for all ranks") {
    JoinedHosts joined({.processes = 5});
    (void)admit(joined, "a");
    CHECK_FALSE(joined.is_complete());
    joined.count("a", 4);
    CHECK_FALSE(joined.is_complete());
    CHECK(joined.progress() == "1 host with 4 slots have joined, for 5 ranks");
    (void)admit(joined, "b", 1);
    joined.count("b", 64);  // it has more, but gave 1
    CHECK(joined.is_complete());
    CHECK(names(joined.hosts()) == std::vector<std::string>{"a", "b:1"});
}

TEST_CASE("numbers in names count as numbers") {
    CHECK(comes_before("w-2", "w-10"));
    CHECK_FALSE(comes_before("w-10", "w-2"));
    CHECK(comes_before("w-2", "w-2a"));
    CHECK(comes_before("a", "b"));
    CHECK_FALSE(comes_before("w-2", "w-2"));
    CHECK(comes_before("n001x1", "n1x2"));
}
