// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/planner.hpp"

#include "collectives/launch_contract/launch_env.hpp"
#include "tests/unit/launcher/plan_on.hpp"

#include <catch2/catch.hpp>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

using hvd::Environment;
using hvd::Errc;
using hvd::launch::BindTo;
using hvd::launch::Gpu;
using hvd::launch::GpuBind;
using hvd::launch::Host;
using hvd::launch::HostFacts;
using hvd::launch::LaunchRequest;
using hvd::launch::ProcessSpec;
using hvd::test::kJob;
using hvd::test::plan_on;

namespace {

HostFacts facts(const char* name, int cpus, int gpus = 0) {
    HostFacts facts;
    facts.hostname = name;
    facts.machine = "x86_64";
    facts.cpus.resize(static_cast<std::size_t>(cpus));
    std::iota(facts.cpus.begin(), facts.cpus.end(), 0);
    for (int index = 0; index < gpus; ++index) {
        Gpu gpu;
        gpu.index = index;
        gpu.uuid = "GPU-" + std::to_string(index);
        facts.gpus.push_back(gpu);
    }
    facts.free_port = 21'000;
    return facts;
}

LaunchRequest request(std::optional<int> processes, std::vector<Host> hosts = {{"h", {}}}) {
    LaunchRequest request;
    request.processes = processes;
    request.hosts.list = std::move(hosts);
    request.command = {"python3", "train.py"};
    return request;
}

/// With everything that is set for them in `env`, whatever they share with others.
std::vector<ProcessSpec> ranks(const LaunchRequest& request, const std::vector<HostFacts>& facts) {
    const auto planned = plan_on(request, facts);
    INFO((planned ? "" : planned.error().message));
    REQUIRE(planned);
    std::vector<ProcessSpec> ranks;
    for (const auto& host : planned->plan.hosts) {
        for (const auto& rank : host.ranks) {
            ranks.push_back(rank);
            ranks.back().env = added_environment(planned->plan.job, host, rank);
        }
    }
    return ranks;
}

std::string error(const LaunchRequest& request, const std::vector<HostFacts>& facts) {
    const auto planned = plan_on(request, facts);
    return planned ? "" : planned.error().message;
}

std::vector<std::string> warnings(const LaunchRequest& request,
                                  const std::vector<HostFacts>& facts,
                                  const hvd::Environment& environment = {}) {
    return plan_on(request, facts, "local", environment).value().warnings;
}

}  // namespace

TEST_CASE("flag -np 2 of four written slots starts two ranks") {
    const auto planned = plan_on(request(2, {{"localhost", 4}}), std::vector{facts("h", 8)});

    REQUIRE(planned);
    CHECK(planned->plan.mode == "native");
    CHECK(planned->plan.np == 2);
    CHECK(planned->plan.job.id == kJob);
    REQUIRE(planned->plan.hosts.size() == 1);
    const auto& host = planned->plan.hosts[0];
    CHECK(host.host == "localhost");
    CHECK(host.starter == "local");
    CHECK(host.slots == 4);
    CHECK(host.agent_socket == "horovod-" + std::string(kJob) + "-0");
    REQUIRE(host.ranks.size() == 2);
    CHECK(host.ranks[1].cpus == std::vector{4, 5, 6, 7});
    const auto& job = planned->plan.job;
    CHECK(cwd_of(job, host.ranks[1]) == "/data");
    CHECK(argv_of(job, host.ranks[1]) == std::vector<std::string>{"python3", "train.py"});
    CHECK(planned->warnings.empty());
}

TEST_CASE("without -np every slot of the hosts gets a rank") {
    CHECK(ranks(request({}, {{"h", 3}}), {facts("h", 8)}).size() == 3);
    CHECK(ranks(request({}), {facts("h", 8)}).size() == 8);     // a bare host: its CPUs
    CHECK(ranks(request({}), {facts("h", 8, 2)}).size() == 2);  // or its GPUs
    CHECK(ranks(request({}), {facts("h", 0)}).size() == 1);
    auto pairs = request({});
    pairs.binding.gpus_per_rank = 2;
    CHECK(ranks(pairs, {facts("h", 8, 4)}).size() == 2);
    auto without = request({});
    without.binding.gpus = GpuBind::none;
    CHECK(ranks(without, {facts("h", 8, 2)}).size() == 8);
}

TEST_CASE("counted slots may be exceeded with a warning, unless that was forbidden") {
    auto three = request(3);

    CHECK(warnings(three, {facts("h", 2)}) ==
          std::vector<std::string>{
              "3 ranks on the 2 CPUs of h will be slow: they share them, none is pinned"});
    CHECK(ranks(three, {facts("h", 2)})[0].cpus.empty());
    CHECK(ranks(three, {facts("h", 2)})[0].env.at("OMP_NUM_THREADS") == "1");

    three.binding.may_oversubscribe = false;
    CHECK(error(three, {facts("h", 2)}) ==
          "3 ranks on the 2 CPUs of h, and --no-oversubscribe was given; start fewer ranks there");
    CHECK(error(three, {facts("h", 3)}).empty());
}

TEST_CASE("flag -np above written slots is refused with both numbers") {
    CHECK(error(request(5, {{"h", 4}}), {facts("h", 64)}) ==
          "-np 5 is more than the 4 slots that were given (h:4); write more slots for a host, or a "
          "smaller -np");
}

TEST_CASE("more ranks than GPUs are refused before anything starts") {
    const auto planned = plan_on(request(3), std::vector{facts("h", 8, 2)});

    REQUIRE_FALSE(planned);
    CHECK(planned.error().code == Errc::invalid_argument);
    CHECK(planned.error().message.starts_with("h: 3 ranks, but only 2 GPUs"));
}

TEST_CASE("every rank's variables decode to its place") {
    const auto all = ranks(request(3, {{"a", 2}, {"b", 2}}), {facts("a", 4), facts("b", 4)});

    REQUIRE(all.size() == 3);
    for (const auto& rank : all) {
        CAPTURE(rank.rank);
        const auto contract = hvd::coll::decode_launch_contract(rank.env);
        REQUIRE(contract);
        CHECK(contract->topology.rank == rank.rank);
        CHECK(contract->topology.size == 3);
        CHECK(contract->topology.local_rank == rank.local_rank);
        CHECK(contract->topology.local_size == rank.local_size);
        CHECK(contract->topology.cross_rank == rank.cross_rank);
        CHECK(contract->topology.cross_size == rank.cross_size);
        CHECK(contract->job_id == kJob);
    }
    CHECK(all[2].env.at("HOROVOD_HOSTNAME") == "b");
    CHECK(all[2].env.at("HOROVOD_AGENT_SOCKET") == "horovod-" + std::string(kJob) + "-1");
    CHECK(all[2].env.at("MASTER_ADDR") == "a");
    CHECK_FALSE(all[2].env.contains("NCCL_SOCKET_IFNAME"));
}

TEST_CASE("a rank of one host gets the documented variables and no others") {
    const auto all = ranks(request(2, {{"localhost", 2}}), {facts("h", 4)});

    CHECK(all[1].env == Environment{
                            {"HOROVOD_RANK", "1"},
                            {"HOROVOD_SIZE", "2"},
                            {"HOROVOD_LOCAL_RANK", "1"},
                            {"HOROVOD_LOCAL_SIZE", "2"},
                            {"HOROVOD_CROSS_RANK", "0"},
                            {"HOROVOD_CROSS_SIZE", "1"},
                            {"HOROVOD_HOSTNAME", "localhost"},
                            {"HOROVOD_JOB_ID", kJob},
                            {"HOROVOD_AGENT_SOCKET", "horovod-" + std::string(kJob) + "-0"},
                            {"HOROVOD_CONTROLLER", "gloo"},
                            {"HOROVOD_CPU_OPERATIONS", "gloo"},
                            {"HOROVOD_GLOO_IFACE", "lo"},
                            {"NCCL_SOCKET_IFNAME", "lo"},
                            {"RANK", "1"},
                            {"WORLD_SIZE", "2"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "127.0.0.1"},
                            {"MASTER_PORT", "21000"},
                            {"PYTHONUNBUFFERED", "1"},
                            {"OMP_NUM_THREADS", "2"},
                        });
}

TEST_CASE("without pinning a rank still uses as many threads as its share has CPUs") {
    auto unpinned = request(2);
    unpinned.binding.cpus = BindTo::none;

    const auto all = ranks(unpinned, {facts("h", 8)});

    CHECK(all[0].cpus.empty());
    CHECK(all[0].env.at("OMP_NUM_THREADS") == "4");
}

TEST_CASE("CPUs of a rank lie near its GPU") {
    auto host = facts("h", 8, 2);
    host.gpus[0].cpus = {4, 5, 6, 7};
    host.gpus[1].cpus = {0, 1, 2, 3};

    const auto all = ranks(request(2), {host});

    CHECK(all[0].cpus == std::vector{4, 5, 6, 7});
    CHECK(all[0].gpus.at(0).uuid == "GPU-0");
    CHECK(all[1].cpus == std::vector{0, 1, 2, 3});
}

TEST_CASE("where ranks of one host share a GPU by MIG devices, all ranks take the same way") {
    auto divided = facts("a", 4, 2);
    for (auto& gpu : divided.gpus) {
        gpu.parent = "GPU-0";
        gpu.uuid = "MIG-" + std::to_string(gpu.index);
        gpu.index = 0;
    }
    auto asked = request(3, {{"a", 2}, {"b", 1}});
    asked.binding.gpus = GpuBind::env;

    const auto all = ranks(asked, {divided, facts("b", 4, 1)});

    CHECK(all[1].env.at("CUDA_VISIBLE_DEVICES") == "MIG-1");
    CHECK(all[2].env.at("CUDA_VISIBLE_DEVICES") == "0");
    CHECK(all[2].env.at("HOROVOD_GPU_OPERATIONS") == "host");
    asked.environment.set = {{"HOROVOD_GPU_OPERATIONS", "nccl"}};
    CHECK(ranks(asked, {divided, facts("b", 4, 1)})[0].env.at("HOROVOD_GPU_OPERATIONS") == "nccl");
}

TEST_CASE("the driver's note is a warning, also where other GPUs are there") {
    auto host = facts("h", 2, 1);
    host.gpu_note = "GPU 1 is in MIG mode and has no MIG device";

    CHECK(warnings(request(1), {host}) ==
          std::vector<std::string>{"h: GPU 1 is in MIG mode and has no MIG device"});
}

TEST_CASE("a host that gets no rank keeps its place in the plan") {
    const auto planned =
        plan_on(request(1, {{"a", 2}, {"b", 2}}), std::vector{facts("a", 2), facts("b", 2)});

    REQUIRE(planned);
    REQUIRE(planned->plan.hosts.size() == 2);
    CHECK(planned->plan.hosts[1].host == "b");
    CHECK(planned->plan.hosts[1].ranks.empty());
}

TEST_CASE("standard input goes to the host of the rank that reads it") {
    auto second = request(2, {{"a", 1}, {"b", 1}});
    second.input.rank = 1;
    const std::vector hosts{facts("a", 2), facts("b", 2)};

    const auto planned = plan_on(second, hosts);
    second.input.rank = 2;

    REQUIRE(planned);
    CHECK(planned->plan.hosts[0].stdin_rank == -1);
    CHECK(planned->plan.hosts[1].stdin_rank == 1);
    CHECK(error(second, hosts) == "--stdin names rank 2, but the ranks are 0 to 1");
}

TEST_CASE("a terminal goes to the host of its rank, which reads standard input") {
    auto second = request(2, {{"a", 1}, {"b", 1}});
    second.input.terminal_rank = 1;
    const std::vector hosts{facts("a", 2), facts("b", 2)};

    const auto planned = plan_on(second, hosts, "local", {{"TERM", "xterm"}});
    second.input.terminal_rank = 2;

    REQUIRE(planned);
    CHECK_FALSE(planned->plan.hosts[0].has_terminal);
    CHECK(planned->plan.hosts[1].has_terminal);
    CHECK(planned->plan.hosts[1].ranks[0].env.at("TERM") == "xterm");
    CHECK_FALSE(planned->plan.hosts[0].ranks[0].env.contains("TERM"));
    CHECK(planned->plan.hosts[1].stdin_rank == 1);
    CHECK(error(second, hosts) == "--pty names rank 2, but the ranks are 0 to 1");
}

TEST_CASE("a warning about the mask reaches the user once for each host") {
    auto host = facts("h", 4, 2);
    host.gpu_mask = "0,7";

    CHECK(warnings(request(1), {host}) ==
          std::vector<std::string>{"CUDA_VISIBLE_DEVICES=0,7: '7' names no GPU; CUDA ignores it "
                                   "and what follows it"});
}

TEST_CASE("GPUs that could not be found out are a warning, unless nobody wants one") {
    auto host = facts("h", 4);
    host.gpu_note = "the NVIDIA driver did not answer within 5 s";
    auto none = request(1);
    none.binding.gpus = GpuBind::none;

    CHECK(warnings(request(1), {host}) ==
          std::vector<std::string>{
              "h: no rank gets a GPU: the NVIDIA driver did not answer within 5 s"});
    CHECK(warnings(none, {host}).empty());
    host.gpu_mask = "";
    CHECK(warnings(request(1), {host}).empty());
}

TEST_CASE("an order of GPUs that we cannot foresee is a warning") {
    auto host = facts("h", 4, 2);
    auto fastest = request(2);
    const hvd::Environment order{{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}};
    CHECK(warnings(fastest, {host}, order).empty());  // all of one kind

    host.gpus[1].name = "slower";
    CHECK(warnings(fastest, {host}, order) ==
          std::vector<std::string>{
              "CUDA_DEVICE_ORDER=FASTEST_FIRST: the GPUs of h differ, so ranks may number them in "
              "another order than planned; leave it unset"});
}

TEST_CASE("the same request and facts give the same plan") {
    const std::vector hosts{facts("a", 7, 3), facts("b", 5, 3)};
    const auto both = request(5, {{"a", 3}, {"b", 3}});

    CHECK(plan_on(both, hosts).value().plan == plan_on(both, hosts).value().plan);
}

TEST_CASE("more than 64 ranks for each CPU of a host are a typing error, unless the user insists") {
    CHECK(ranks(request(128, {{"h", {}}}), {facts("h", 2)}).size() == 128);
    CHECK(error(request(129), {facts("h", 2)}) ==
          "129 ranks on the 2 CPUs of h are more than 64 for each CPU; start fewer ranks there, or "
          "insist with --oversubscribe");

    auto insisting = request(129);
    insisting.binding.may_overload = true;
    CHECK(ranks(insisting, {facts("h", 2)}).size() == 129);
}
