// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_spec.hpp"

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <vector>

using hvd::Errc;
using hvd::launch::Host;
using hvd::launch::merge_machines;
using hvd::launch::parse_hosts;

TEST_CASE("parse_hosts reads names and slots") {
    struct Example {
        std::string text;
        std::vector<Host> expected;
    };
    const auto& example = GENERATE(values<Example>({
        {"a", {{"a", std::nullopt}}},  // as many as the host turns out to have
        {"a:4", {{"a", 4}}},
        {"a:4,b", {{"a", 4}, {"b", std::nullopt}}},
        {" a:4 , b:2 ", {{"a", 4}, {"b", 2}}},
        {"node-1.example_x.com:65536", {{"node-1.example_x.com", 65536}}},
        {"[fe80::1]", {{"[fe80::1]", std::nullopt}}},
        {"[fe80::1]:2", {{"[fe80::1]", 2}}},
        {"[fe80::1%eth0]:2", {{"[fe80::1%eth0]", 2}}},
        {"[::ffff:10.0.0.1]:2", {{"[::ffff:10.0.0.1]", 2}}},
        {"10.0.0.1:8", {{"10.0.0.1", 8}}},
        {"me@a:4", {{"a", 4, "me"}}},
        {"DOMAIN\\me@a", {{"a", std::nullopt, "DOMAIN\\me"}}},
        {"me@[fe80::1]:2", {{"[fe80::1]", 2, "me"}}},
        {"ssh://a", {{"a"}}},
        {"ssh://me@a:2222/4", {{"a", 4, "me", 2222}}},
        {"ssh://[fe80::1]:22/1", {{"[fe80::1]", 1, std::nullopt, 22}}},
        {"ssh://a:22,ssh://a:23", {{"a", {}, {}, 22}, {"a", {}, {}, 23}}},
        {"n[08-10,1]:2", {{"n08", 2}, {"n09", 2}, {"n10", 2}, {"n1", 2}}},
        {"me@r[1-2]n[3,5]x",
         {{"r1n3x", {}, "me"}, {"r1n5x", {}, "me"}, {"r2n3x", {}, "me"}, {"r2n5x", {}, "me"}}},
        {"n[1-4],^n[2-3]", {{"n1"}, {"n4"}}},
        {"^b,a,b", {{"a"}}},
    }));
    CAPTURE(example.text);

    const auto hosts = parse_hosts(example.text);

    REQUIRE(hosts);
    CHECK(*hosts == example.expected);
}

TEST_CASE("a host that is written twice counts once, with its slots summed") {
    const auto summed = parse_hosts("b:1,a:2,B:3");
    const auto counted = parse_hosts("a,b,a");

    REQUIRE(summed);
    CHECK(*summed == std::vector<Host>{{"b", 4}, {"a", 2}});
    REQUIRE(counted);
    CHECK(*counted == std::vector<Host>{{"a", std::nullopt}, {"b", std::nullopt}});
}

TEST_CASE("one name with two ports is two hosts") {
    const auto hosts = parse_hosts("ssh://a:22/1,ssh://a:23/1,ssh://A:22/1,a:4");

    REQUIRE(hosts);
    CHECK(*hosts == std::vector<Host>{{"a", 2, {}, 22}, {"a", 1, {}, 23}, {"a", 4}});
}

TEST_CASE("parse_hosts refuses what it cannot read, and names it") {
    const auto* text =
        GENERATE("", ":4", "a:", "a:0", "a:-1", "a:+1", "a:4x", "a:99999999999", "a:65537",
                 "a:65536,a:1", "a,,b", "a,", "a b", "a;b", "-a", "a:1:2", "fe80::1", "[fe80::1",
                 "[]", "[a]:2", "[fe80::1]2", "[fe80::1]:", "[fe80::1%]:2", "@a", "-o@a", "a b@c",
                 "a:2,a", "me@a,you@a", "n[1-2", "n[2-1]", "n[x]", "n[]", "n[0-99999]", "ssh://a:0",
                 "ssh://a/0", "ssh://a:1:2", "^a", "a,^b", "a,^a:2");
    CAPTURE(text);

    const auto hosts = parse_hosts(text);

    REQUIRE_FALSE(hosts);
    CHECK(hosts.error().code == Errc::invalid_argument);
    CHECK(hosts.error().message.starts_with("host '"));
}

TEST_CASE("errors about hosts say what to write") {
    CHECK(parse_hosts("a:").error().message ==
          "host 'a:': the number of slots is missing, such as in 'node1:4'");
    CHECK(parse_hosts("fe80::1").error().message ==
          "host 'fe80::1': an IPv6 address needs brackets, such as [fe80::1]:4");
    CHECK(parse_hosts("a,b:x").error().message ==
          "host 'b:x': the number of slots is 'x', but it must be from 1 to 65536");
    CHECK(parse_hosts(std::string_view("a\0b", 3)).error().message ==
          "host 'a\\x00b': a name has letters, digits, '.', '-' and '_', but no '\\x00'");
    CHECK(parse_hosts("a:2,a").error().message ==
          "host 'a': it is written once with and once without a number of slots");
}

TEST_CASE("names of one machine give their slots to the first") {
    std::vector<Host> hosts{{"a", 2}, {"b", 3}, {"a.lab", 4}, {"c"}};
    std::vector<Host> counted{{"a"}, {"a.lab"}};

    REQUIRE(merge_machines(hosts, {0, 1, 0, 3}));
    CHECK(hosts == std::vector<Host>{{"a", 6}, {"b", 3}, {"a.lab", 0}, {"c"}});
    CHECK(merge_machines(counted, {0, 0}).error().message ==
          "a and a.lab are one machine; write it once, or each with its number of slots");
}
