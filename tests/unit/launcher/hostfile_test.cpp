// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/hostfile.hpp"

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <vector>

using hvd::Errc;
using hvd::launch::Host;
using hvd::launch::parse_hostfile;
using hvd::launch::read_hostfile;

TEST_CASE("parse_hostfile reads every form of a line") {
    struct Example {
        std::string text;
        std::vector<Host> expected;
    };
    const auto& example = GENERATE(values<Example>({
        {"a slots=4", {{"a", 4}}},
        {"a slots=4\n", {{"a", 4}}},
        {"a  slots = 4 \r\nb\tslots=2\r\n", {{"a", 4}, {"b", 2}}},
        {"a:4\nb", {{"a", 4}, {"b", std::nullopt}}},
        {"# all\n\n  \na slots=4 # fast\n#b slots=9\n", {{"a", 4}}},
        {"a slots=4 max_slots=8", {{"a", 4}}},
        {"a max-slots=8 slots=4", {{"a", 4}}},
        {"a max_slots=8", {{"a", 8}}},
        {"a slots=1\nb slots=2\na slots=3", {{"a", 4}, {"b", 2}}},
        {"[fe80::1] slots=2", {{"[fe80::1]", 2}}},
        {"me@a slots=2 port=2222", {{"a", 2, "me", 2222}}},
        {"ssh://me@a:2222/4", {{"a", 4, "me", 2222}}},
        {"n[01-02] slots=4\n^n01\nb", {{"n02", 4}, {"b"}}},
    }));
    CAPTURE(example.text);

    const auto hosts = parse_hostfile(example.text, "hosts.txt");

    REQUIRE(hosts);
    CHECK(*hosts == example.expected);
}

TEST_CASE("errors in a host file begin with file, line and column") {
    struct Example {
        std::string text;
        std::string expected;
    };
    const auto& example = GENERATE(values<Example>({
        {"a slots=4\n  b slots=x\n", "hosts.txt:2:11: slots=x must be from 1 to 65536"},
        {"a slots=0", "hosts.txt:1:9: slots=0 must be from 1 to 65536"},
        {"a slots=", "hosts.txt:1:3: slots= must be from 1 to 65536"},
        {"a slot=4", "hosts.txt:1:3: unknown key 'slot'; did you mean slots?"},
        {"a gpu_kind=4",
         "hosts.txt:1:3: unknown key 'gpu_kind'; a host has slots=N, max_slots=N and port=N"},
        {"a 4", "hosts.txt:1:3: '4' is not understood after a host; write slots=N"},
        {std::string("a \0", 3),
         "hosts.txt:1:3: '\\x00' is not understood after a host; write slots=N"},
        {"a =4", "hosts.txt:1:3: '' is not understood after a host; write slots=N"},
        {"a slots=1 slots=2", "hosts.txt:1:11: slots is written twice"},
        {"a:4 slots=4", "hosts.txt:1:5: slots is written twice"},
        {"a slots=4 max_slots=2", "hosts.txt:1:1: host 'a' has 4 slots, but max_slots=2"},
        {"\n a:x",
         "hosts.txt:2:2: host 'a:x': the number of slots is 'x', but it must be from 1 "
         "to 65536"},
        {"a slots=1\n a",
         "hosts.txt:2:1: host 'a': it is written once with and once without a "
         "number of slots"},
        {"a port=70000", "hosts.txt:1:8: port=70000 must be from 1 to 65535"},
        {"a\n b[1-x]",
         "hosts.txt:2:2: host 'b[1-x]': in '[1-x]' 'x' is not a number; write ranges such as "
         "[1-4,7]"},
        {"a\n ^b", "hosts.txt:2:2: host '^b': the list has no such host to leave out"},
        {"^a\n\na", "hosts.txt:1:1: host '^a': no host is left"},
        {"^c\na\n^b", "hosts.txt:1:1: host '^c': the list has no such host to leave out"},
        {"# nothing\n", "hosts.txt: there is no host in this file"},
    }));
    CAPTURE(example.text);

    const auto hosts = parse_hostfile(example.text, "hosts.txt");

    REQUIRE_FALSE(hosts);
    CHECK(hosts.error().code == Errc::invalid_argument);
    CHECK(hosts.error().message == example.expected);
}

TEST_CASE("a host file that cannot be read is named with the cause") {
    CHECK(read_hostfile("/nowhere/hosts").error().message ==
          "/nowhere/hosts: No such file or directory");
    CHECK(read_hostfile("/").error().message == "/: Is a directory");
}

TEST_CASE("the time to read many hosts grows as their number") {
    constexpr int kMany = 30'000;  // too many to compare each with each
    std::string text;
    for (int host = 0; host < kMany; ++host) {
        text += "node" + std::to_string(host) + " slots=1\n";
    }

    const auto hosts = parse_hostfile(text + text, "hosts.txt");

    REQUIRE(hosts);
    CHECK(hosts->size() == kMany);
    CHECK(hosts->back() == Host{.name = "node29999", .slots = 2});
}
