// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/facts_file.hpp"

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <vector>

using hvd::launch::describe_hosts;
using hvd::launch::Host;
using hvd::launch::HostFacts;
using hvd::launch::parse_facts;
using hvd::launch::read_facts_file;

TEST_CASE("facts are read with every field") {
    const auto hosts = parse_facts(R"([
        {"hostname": "node1", "machine": "x86_64", "cpus": "0-2,8", "memory_bytes": 16000000000,
         "gpus": [{"index": 0, "uuid": "GPU-a", "name": "H200", "memory_bytes": 150000000000,
                   "cpus": [0, 1]},
                  {"index": 1, "uuid": "MIG-b", "parent": "GPU-b"}],
         "gpu_mask": "", "gpu_note": "none", "free_port": 21000},
        {"hostname": "node2", "cpus": [3], "gpu_mask": null, "gpus": []}])",
                                   "f.json");

    REQUIRE(hosts);
    const HostFacts first{.hostname = "node1",
                          .machine = "x86_64",
                          .cpus = {0, 1, 2, 8},
                          .memory_bytes = 16'000'000'000,
                          .gpus = {{.index = 0,
                                    .uuid = "GPU-a",
                                    .name = "H200",
                                    .memory_bytes = 150'000'000'000,
                                    .cpus = {0, 1}},
                                   {.index = 1,
                                    .uuid = "MIG-b",
                                    .name = "",
                                    .memory_bytes = 0,
                                    .cpus = {},
                                    .parent = "GPU-b"}},
                          .gpu_mask = "",
                          .gpu_note = "none",
                          .free_port = 21'000};
    HostFacts second;
    second.hostname = "node2";
    second.cpus = {3};
    CHECK(*hosts == std::vector{first, second});
}

TEST_CASE("errors in a facts file name file, host and field") {
    struct Example {
        std::string text;
        std::string expected;
    };
    const auto& example = GENERATE(values<Example>({
        {"[]", "f.json: there must be a list of hosts"},
        {"{}", "f.json: there must be a list of hosts"},
        {"[3]", "f.json: host 0: it must be an object with 'hostname' and 'cpus'"},
        {R"([{"cpus": "0"}])", "f.json: host 0: the field 'hostname' is missing"},
        {R"([{"hostname": 3}])", "f.json: host 0: 'hostname' must be a text"},
        {R"([{"hostname": "a"}])", "f.json: a: the field 'cpus' is missing"},
        {R"([{"hostname": "a", "cpus": "0-"}])",
         "f.json: a: 'cpus' must be CPUs such as \"0-3,8\" or [0, 1]"},
        {R"([{"hostname": "a", "cpus": [-1]}])",
         "f.json: a: 'cpus' must be CPUs such as \"0-3,8\" or [0, 1]"},
        {R"([{"hostname": "a", "cpus": "0", "cpu": 1}])",
         "f.json: a: unknown field 'cpu'; did you mean 'cpus'?"},
        {R"([{"hostname": "a", "cpus": "0", "free_port": -1}])",
         "f.json: a: 'free_port' must be a whole number from 0 to 2147483647"},
        {R"([{"hostname": "a", "cpus": "0", "gpu_mask": 1}])",
         "f.json: a: 'gpu_mask' must be a text"},
        {R"([{"hostname": "a", "cpus": "0", "gpus": 1}])", "f.json: a: 'gpus' must be a list"},
        {R"([{"hostname": "a", "cpus": "0", "gpus": [{"index": 0}]}])",
         "f.json: a: GPU 0: the field 'uuid' is missing"},
        {R"([{"hostname": "a", "cpus": "0", "gpus": [7]}])",
         "f.json: a: GPU 0: it must be an object with 'index' and 'uuid'"},
    }));
    CAPTURE(example.text);

    const auto hosts = parse_facts(example.text, "f.json");

    REQUIRE_FALSE(hosts);
    CHECK(hosts.error().message == example.expected);
}

TEST_CASE("text that is no JSON is an error of the file") {
    const auto* text = GENERATE("", "[{", "nonsense", "[1,]", "\xff");
    CAPTURE(text);

    const auto hosts = parse_facts(text, "f.json");

    REQUIRE_FALSE(hosts);
    CHECK(hosts.error().message.starts_with("f.json: "));
}

TEST_CASE("a facts file that cannot be read is named with the cause") {
    CHECK(read_facts_file("/nowhere/f").error().message == "/nowhere/f: No such file or directory");
}

TEST_CASE("hosts are described by their own facts, in the order in which they are wanted") {
    HostFacts a;
    a.hostname = "a";
    HostFacts b;
    b.hostname = "b";

    const auto all = describe_hosts({}, {a, b});
    const auto wanted = describe_hosts({{"b", 2}}, {a, b});
    const auto missing = describe_hosts({{"c", 2}}, {a, b});

    REQUIRE(all);
    REQUIRE(all->size() == 2);
    CHECK(all->front().host == Host{"a"});
    CHECK(all->front().starter == "ssh");
    CHECK(all->back().facts == b);
    REQUIRE(wanted);
    REQUIRE(wanted->size() == 1);
    CHECK(wanted->front().host == Host{"b", 2});
    CHECK(wanted->front().starter == "local");
    CHECK(wanted->front().facts == b);
    REQUIRE_FALSE(missing);
    CHECK(missing.error().message == "host 'c' is not among the described ones: a, b");
}
