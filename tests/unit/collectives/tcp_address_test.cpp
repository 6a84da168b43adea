// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/rank_record.hpp"

#include <catch2/catch.hpp>

#include <utility>

namespace hvd::coll::net {
namespace {

HostAddress at(const std::string& interface, const std::string& ip, int prefix, int speed = 0) {
    const auto parsed = parse_ip(ip);
    REQUIRE(parsed);
    return {.interface = interface, .ip = *parsed, .prefix = prefix, .speed = speed};
}

std::vector<std::string> order(const RankRecord& own,
                               const std::vector<HostAddress>& own_addresses,
                               const RankRecord& peer) {
    std::vector<std::string> texts;
    for (const auto& endpoint : candidates(own, own_addresses, peer)) {
        texts.push_back(to_string(endpoint));
    }
    return texts;
}

const std::vector<HostAddress>& two_interfaces() {
    static const std::vector<HostAddress> addresses{
        at("lo", "127.0.0.1", 8), at("eth0", "10.0.0.5", 24), at("ib0", "fd00::5", 64)};
    return addresses;
}

std::vector<std::string> allowed(std::string_view filter) {
    const auto parsed = parse_interface_filter(filter);
    REQUIRE(parsed);
    const auto addresses = allowed_addresses(two_interfaces(), *parsed);
    std::vector<std::string> names;
    if (addresses) {
        for (const auto& address : *addresses) {
            names.push_back(address.interface);
        }
    }
    return names;
}

}  // namespace

TEST_CASE("addresses are literals, never names") {
    for (const std::string text : {"10.0.0.1", "127.0.0.1", "::1", "fd00::1"}) {
        const auto ip = parse_ip(text);
        REQUIRE(ip);
        CHECK(to_string(*ip) == text);
        CHECK(is_loopback(*ip) == (text == "127.0.0.1" || text == "::1"));
    }
    CHECK_FALSE(parse_ip("localhost"));
    CHECK_FALSE(parse_ip(""));
    CHECK_FALSE(parse_ip("10.0.0"));
}

TEST_CASE("interfaces are allowed by name, pattern, address and network") {
    using Names = std::vector<std::string>;
    CHECK(allowed("") == Names{"lo", "eth0", "ib0"});
    CHECK(allowed("eth0") == Names{"eth0"});
    CHECK(allowed("e*, ib?") == Names{"eth0", "ib0"});
    CHECK(allowed("10.0.0.0/8") == Names{"eth0"});
    CHECK(allowed("10.0.0.5") == Names{"eth0"});
    CHECK(allowed("fd00::/16,lo") == Names{"lo", "ib0"});
    CHECK(allowed("0.0.0.0/0") == Names{"lo", "eth0"});
}

TEST_CASE("a filter that allows nothing says what there is") {
    const auto filter = parse_interface_filter("wlan*");
    REQUIRE(filter);

    const auto addresses = allowed_addresses(two_interfaces(), *filter);

    REQUIRE_FALSE(addresses);
    CHECK(addresses.error().message ==
          "HOROVOD_NETWORK_INTERFACES='wlan*' allows none of this host's addresses: lo 127.0.0.1, "
          "eth0 10.0.0.5, ib0 fd00::5");
}

TEST_CASE("a malformed filter or port range is an error") {
    for (const auto* text :
         {"eth0,,ib0", "10.0.0.0/33", "10.0.0.0/", "fd00::/129", "eth0/8", ","}) {
        CAPTURE(text);
        CHECK_FALSE(parse_interface_filter(text));
    }
    for (const auto* text : {"", "0", "5-4", "1-65536", "a-b", "-5", "5-"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_port_range(text));
    }
    CHECK(*parse_port_range(" 5000-5010 ") == PortRange{5000, 5010});
    CHECK(*parse_port_range("5000") == PortRange{5000, 5000});
}

TEST_CASE("loopback and addresses that both hosts have are never used between hosts") {
    const RankRecord own{.host = "a", .pid = 1, .network = "boot/1", .endpoints = {}};
    RankRecord peer{.host = "b",
                    .pid = 2,
                    .network = "boot/2",
                    .endpoints = {{at("lo", "127.0.0.1", 8), 7001},
                                  {at("docker0", "172.17.0.1", 16), 7002},
                                  {at("eth1", "192.168.9.2", 24, 1000), 7003},
                                  {at("eth2", "192.168.8.2", 24, 10'000), 7004},
                                  {at("eth0", "10.0.0.2", 24), 7005}}};
    const std::vector<HostAddress> addresses{at("lo", "127.0.0.1", 8), at("eth0", "10.0.0.1", 24),
                                             at("docker0", "172.17.0.1", 16)};

    // The network that both are in, then the fastest.
    CHECK(order(own, addresses, peer) ==
          std::vector<std::string>{"10.0.0.2:7005", "192.168.8.2:7004", "192.168.9.2:7003"});

    peer.network = own.network;
    CHECK(order(own, addresses, peer).front() == "127.0.0.1:7001");
    CHECK(order(own, addresses, peer).size() == 5);

    // Not knowing one's network is not sharing it.
    peer.network.clear();
    CHECK(order({.host = "a", .pid = 1, .network = "", .endpoints = {}}, addresses, peer).size() ==
          3);
}

TEST_CASE("what a rank publishes survives the store, and malformed bytes are refused") {
    const RankRecord record{
        .host = "node1",
        .pid = 42,
        .network = "boot/1",
        .endpoints = {{at("eth0", "10.0.0.2", 24, 100), 7005}, {at("ib0", "fd00::2", 64), 7006}},
        .host_id = "agent"};
    const auto bytes = encode(record);

    CHECK(*decode_rank_record(bytes) == record);
    const std::vector two{record, record};
    CHECK(*decode_rank_records(encode(two)) == two);
    CHECK_FALSE(decode_rank_records(bytes));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        CHECK_FALSE(decode_rank_record(std::span(bytes).first(size)));
    }
}

TEST_CASE("what a leader tells survives the store, and malformed bytes are refused") {
    const Routes routes{
        .routes = {{.leader = 0, .here = *parse_ip("10.0.0.1"), .there = *parse_ip("10.0.0.2")},
                   {.leader = 8, .here = *parse_ip("fd00::1"), .there = *parse_ip("fd00::8")}},
        .failure = "why"};
    const auto bytes = encode(routes);

    CHECK(*decode_routes(bytes) == routes);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        CHECK_FALSE(decode_routes(std::span(bytes).first(size)));
    }
}

TEST_CASE("the leader of a host is the lowest rank there, however ranks are spread") {
    std::vector<RankRecord> records(5);
    records[0].host_id = "b";
    records[1].host_id = "a";
    records[2].host_id = "b";
    records[3].host_id = "c";
    records[4].host_id = "a";

    CHECK(leaders_of(records) == std::vector<int>{0, 1, 0, 3, 1});
}

TEST_CASE("an address comes back from the kernel's form") {
    for (const auto* text : {"10.1.2.3", "fd00::12"}) {
        const auto ip = *parse_ip(text);
        CHECK(to_ip(to_socket_address(ip, 80).get()) == ip);
    }
}

TEST_CASE("this host has addresses") {
    const auto addresses = host_addresses();

    REQUIRE(addresses);
    for (const auto& address : *addresses) {
        CHECK_FALSE(address.interface.empty());
        CHECK(address.prefix > 0);
    }
}

}  // namespace hvd::coll::net
