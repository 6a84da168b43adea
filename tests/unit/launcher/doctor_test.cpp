// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/diagnosis.hpp"
#include "launcher/doctor/link_pairs.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

using hvd::launch::choose_pairs;
using hvd::launch::compare_gpu_drivers;
using hvd::launch::compare_nccl;
using hvd::launch::Diagnosis;
using hvd::launch::HostHealth;
using hvd::launch::HostPair;
using hvd::launch::NcclFile;
using hvd::launch::PairSchedule;
using hvd::launch::with_remedy;

namespace {

HostHealth well(const std::string& name) {
    HostHealth host{.host = name};
    host.facts.emplace();
    host.facts->cpus = {0, 1};
    host.facts->memory_bytes = std::uint64_t{3} << 30;
    host.seconds_to_link = 0.25;
    return host;
}

}  // namespace

TEST_CASE("of few hosts all pairs are measured, the earlier host first") {
    CHECK(choose_pairs(0).empty());
    CHECK(choose_pairs(1).empty());
    CHECK(choose_pairs(3) == std::vector<HostPair>{{0, 1}, {0, 2}, {1, 2}});
    CHECK(choose_pairs(8).size() == hvd::launch::count_pairs(8));
}

TEST_CASE("of many hosts a ring and the pairs across it are measured, each once") {
    const auto hosts = GENERATE(values<std::size_t>({9, 10, 64, 513}));
    const auto pairs = choose_pairs(hosts);

    CHECK(pairs.size() == hosts + hosts / 2);
    CHECK(std::set(pairs.begin(), pairs.end()).size() == pairs.size());
    std::vector<int> degree(hosts);
    for (const auto& [a, b] : pairs) {
        REQUIRE(a < b);
        REQUIRE(b < hosts);
        ++degree[a];
        ++degree[b];
    }
    CHECK(std::ranges::all_of(degree, [](int links) { return links >= 2; }));
}

TEST_CASE("a host is in one measurement at a time, and every pair has its turn") {
    PairSchedule schedule(choose_pairs(5), 5);
    std::set<HostPair> measured;
    while (!schedule.is_over()) {
        const auto begun = schedule.begin();
        REQUIRE_FALSE(begun.empty());
        std::set<std::size_t> busy;
        for (const auto pair : begun) {
            const auto& [a, b] = schedule.pair(pair);
            REQUIRE(busy.insert(a).second);
            REQUIRE(busy.insert(b).second);
            measured.insert({a, b});
        }
        REQUIRE(schedule.begin().empty());
        for (const auto pair : begun) {
            schedule.end(pair);
        }
    }
    CHECK(measured.size() == 10);
}

TEST_CASE("each host has a line, its failures below, each with the host") {
    Diagnosis diagnosis;
    diagnosis.hosts = {well("a"), well("b"), {.host = "c"}};
    diagnosis.hosts[0].clock = {.ahead_seconds = -0.0021, .error_seconds = 0.0004};
    diagnosis.hosts[1].problems = {"train.py: not found; install it there"};
    diagnosis.hosts[1].warnings = {"/dev/shm has only 1 MiB"};
    diagnosis.hosts[2].problems = {"connecting: refused; start sshd"};
    diagnosis.possible_links = 1;
    diagnosis.links = {{.from = "a",
                        .to = "b",
                        .address = "10.0.0.1:7 (eth0)",
                        .round_trip_ns = 41'600,
                        .bytes_per_second = 1'234'000'000}};

    CHECK(print_text(diagnosis) ==
          "PASS  a  2 CPUs, 0 GPUs, 3.0 GiB, agent up in 250.0 ms, clock 2.1 ms behind (to 0.4 "
          "ms)\n"
          "FAIL  b  2 CPUs, 0 GPUs, 3.0 GiB, agent up in 250.0 ms\n"
          "      b: train.py: not found; install it there\n"
          "      b: warning: /dev/shm has only 1 MiB\n"
          "FAIL  c\n"
          "      c: connecting: refused; start sshd\n"
          "1 of 1 pair of hosts, median round trip and what arrives each second:\n"
          "PASS  a - b  round trip 42 us, 1.23 GB/s  at 10.0.0.1:7 (eth0)\n");
    CHECK_FALSE(diagnosis.is_well());
}

TEST_CASE("MIG devices are counted with their GPUs") {
    Diagnosis diagnosis;
    diagnosis.hosts = {well("a")};
    auto& gpus = diagnosis.hosts[0].facts->gpus;
    gpus.resize(3);
    for (auto& gpu : gpus) {
        gpu.uuid = "MIG-1";
        gpu.parent = "GPU-0";
    }

    CHECK_THAT(print_text(diagnosis), Catch::Contains("2 CPUs, 3 MIG devices of 1 GPU, "));
    gpus.resize(4);
    CHECK_THAT(print_text(diagnosis), Catch::Contains("1 GPU and 3 MIG devices of 1 GPU, "));
    const auto json = nlohmann::json::parse(print_json(diagnosis));
    CHECK(json["hosts"][0]["facts"]["gpus"][0]["parent"] == "GPU-0");
    CHECK(json["hosts"][0]["facts"]["gpus"][3]["parent"].is_null());
}

TEST_CASE("GPU drivers that differ between machines are a warning") {
    Diagnosis diagnosis;
    diagnosis.hosts = {well("a"), well("b"), well("c"), well("d"), {.host = "e"}, well("f")};
    for (const std::size_t host : {1U, 2U, 3U, 5U}) {
        auto& facts = *diagnosis.hosts[host].facts;
        facts.gpus.resize(2);
        facts.gpu_driver = {.version = host == 2 ? "570.1" : "580.65", .cuda = "13.0", .link = ""};
    }
    diagnosis.hosts[1].facts->gpu_driver.link = "NVLink";
    diagnosis.hosts[5].facts->gpu_driver.cuda = "";  // told by the driver's files

    compare_gpu_drivers(diagnosis.hosts);

    CHECK(diagnosis.hosts[1].warnings.empty());
    CHECK(diagnosis.hosts[2].warnings ==
          std::vector<std::string>{
              "its GPU driver is 570.1 (CUDA 13.0), and that of b 580.65 (CUDA 13.0); NCCL and "
              "CUDA programs have to run on the older one: install the same everywhere"});
    CHECK(diagnosis.hosts[3].warnings.empty());
    CHECK(diagnosis.hosts[5].warnings.empty());
    CHECK_THAT(print_text(diagnosis),
               Catch::Contains(
                   "b  2 CPUs, 2 GPUs (driver 580.65, CUDA 13.0, NVLink between them), 3.0 GiB"));
    const auto json = nlohmann::json::parse(print_json(diagnosis));
    CHECK(json["hosts"][1]["facts"]["gpu_driver"]["link"] == "NVLink");
    CHECK(json["hosts"][0]["facts"]["gpu_driver"]["version"].is_null());
}

TEST_CASE("NCCLs that differ between hosts with GPUs are a warning") {
    Diagnosis diagnosis;
    diagnosis.hosts = {well("cpu"), well("a"), well("b"), well("c"), well("d"), well("e")};
    const std::vector<NcclFile> files{{},
                                      {.version = "2.27.3", .file = "/a/libnccl.so.2"},
                                      {.version = "2.21.5", .file = "/b/libnccl.so.2"},
                                      {},
                                      {.version = "", .file = "/d/libnccl.so.2"},
                                      {.version = "2.27.3", .file = "/e/libnccl.so.2"}};
    for (std::size_t host = 0; host < files.size(); ++host) {
        diagnosis.hosts[host].nccl = files[host];
        diagnosis.hosts[host].facts->gpus.resize(host == 0 ? 0 : 1);
    }

    compare_nccl(diagnosis.hosts);

    CHECK(diagnosis.hosts[2].warnings ==
          std::vector<std::string>{
              "its ranks would load NCCL 2.21.5 (/b/libnccl.so.2), and those of a NCCL 2.27.3 "
              "(/a/libnccl.so.2); ranks with different ones stop at the first tensor on a GPU: "
              "install the same everywhere"});
    CHECK_THAT(diagnosis.hosts[3].warnings.at(0),
               Catch::StartsWith("its ranks would load no NCCL, and those of a NCCL 2.27.3 "));
    for (const std::size_t host : {0U, 1U, 4U, 5U}) {
        CHECK(diagnosis.hosts[host].warnings.empty());
    }
    CHECK_THAT(print_text(diagnosis), Catch::Contains("a  2 CPUs, 1 GPU (NCCL 2.27.3), 3.0 GiB"));
    const auto json = nlohmann::json::parse(print_json(diagnosis));
    CHECK(json["hosts"][1]["nccl"]["version"] == "2.27.3");
    CHECK(json["hosts"][4]["nccl"]["version"].is_null());
    CHECK(json["hosts"][0]["nccl"].is_null());
}

TEST_CASE("a warning alone leaves a host well") {
    Diagnosis diagnosis;
    diagnosis.hosts = {well("a")};
    diagnosis.hosts[0].warnings = {"w"};
    CHECK(diagnosis.is_well());

    SECTION("a link that fails does not") {
        diagnosis.links = {{.from = "a", .to = "b", .problem = "b cannot reach a"}};
    }
    SECTION("nor does a plan that is refused") {
        diagnosis.plan_problem = "-np 5 is too many";
    }
    if (diagnosis.links.empty() && !diagnosis.plan_problem) {
        return;
    }
    CHECK_FALSE(diagnosis.is_well());
    CHECK_THAT(print_text(diagnosis), Catch::Contains("FAIL  plan  -np 5 is too many\n") ||
                                          Catch::Contains("FAIL  a - b  b cannot reach a\n"));
}

TEST_CASE("the same is there as JSON") {
    Diagnosis diagnosis;
    diagnosis.hosts = {well("a"), {.host = "b", .problems = {"p"}}};
    diagnosis.links = {{.from = "a", .to = "b", .round_trip_ns = 2000, .bytes_per_second = 7}};
    diagnosis.possible_links = 3;

    const auto json = nlohmann::json::parse(print_json(diagnosis));

    CHECK(json["version"] == 1);
    CHECK(json["ok"] == false);
    CHECK(json["hosts"][0]["ok"] == true);
    CHECK(json["hosts"][0]["facts"]["cpus"] == std::vector{0, 1});
    CHECK(json["hosts"][1]["facts"].is_null());
    CHECK(json["hosts"][1]["problems"] == std::vector<std::string>{"p"});
    CHECK(json["plan"]["problem"].is_null());
    CHECK(json["possible_links"] == 3);
    CHECK(json["links"][0]["bytes_per_second"] == 7);
    CHECK(json["links"][0]["round_trip_seconds"].get<double>() == Approx(2e-6));
}

TEST_CASE("what a transport says gets a remedy, unless it has one") {
    CHECK_THAT(with_remedy("n", "connecting: 10.0.0.1: Connection refused"),
               Catch::EndsWith("refused; start sshd there, or give its port with -p"));
    CHECK_THAT(with_remedy("n", "resolving its name: n: no address"),
               Catch::EndsWith("; look at its spelling, at /etc/hosts and at the name server"));
    CHECK_THAT(with_remedy("n", "authentication: refused by the server"),
               Catch::EndsWith("; see what `ssh n true` says"));
    CHECK(with_remedy("n", "host key unknown; run ssh") == "host key unknown; run ssh");
}
