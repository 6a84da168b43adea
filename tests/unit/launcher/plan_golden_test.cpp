// SPDX-License-Identifier: Apache-2.0
//
// Every plan of a matrix of hosts, numbers of ranks, policies and GPUs, a line each, compared with
// golden/plans.txt. When a difference is meant, copy what the test wrote over the golden file, and
// let the reviewer read the difference.
#include "collectives/base/text.hpp"
#include "launcher/plan/planner.hpp"
#include "tests/unit/launcher/plan_on.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using hvd::find;
using hvd::format_ranges;
using hvd::launch::Gpu;
using hvd::launch::GpuBind;
using hvd::launch::Host;
using hvd::launch::HostFacts;
using hvd::launch::HostPlan;
using hvd::launch::LaunchRequest;

namespace {

/// 8 CPUs; the odd GPUs are near the upper half of them.
HostFacts describe(const Host& host, int gpus) {
    HostFacts facts;
    facts.hostname = host.name;
    facts.cpus.resize(8);
    std::iota(facts.cpus.begin(), facts.cpus.end(), 0);
    for (int index = 0; index < gpus; ++index) {
        Gpu gpu;
        gpu.index = index;
        gpu.uuid = "GPU-" + std::to_string(index);
        gpu.cpus = index % 2 == 0 ? std::vector{0, 1, 2, 3} : std::vector{4, 5, 6, 7};
        facts.gpus.push_back(std::move(gpu));
    }
    return facts;
}

struct Policy {
    const char* name;
    GpuBind visibility;
    int gpus_per_rank;
    bool share_gpus;
    std::optional<std::string> mask;
};

/// "a: 0 cpu 0-3 gpu 0 see 0; 1 cpu 4-7 gpu 1 see 1"
std::string line_of(const HostPlan& host) {
    std::string line = host.host + ":";
    for (const auto& rank : host.ranks) {
        std::vector<int> gpus;
        for (const auto& gpu : rank.gpus) {
            gpus.push_back(gpu.index);
        }
        line += " [" + std::to_string(rank.rank) + " local " + std::to_string(rank.local_rank) +
                "/" + std::to_string(rank.local_size) + " cross " +
                std::to_string(rank.cross_rank) + "/" + std::to_string(rank.cross_size) + " cpus " +
                format_ranges(rank.cpus) + (gpus.empty() ? "" : " gpus ") + format_ranges(gpus);
        const auto sees = find(rank.env, "CUDA_VISIBLE_DEVICES");
        line += (sees ? " sees " + *sees : "") + "]";
    }
    return line;
}

std::string plan_line(LaunchRequest request, const Policy& policy, int gpus) {
    request.binding.gpus = policy.visibility;
    request.binding.gpus_per_rank = policy.gpus_per_rank;
    request.binding.may_lack_gpus = policy.gpus_per_rank == 1;
    request.binding.share_gpus = policy.share_gpus;
    std::vector<HostFacts> facts;
    for (const auto& host : request.hosts.list) {
        facts.push_back(describe(host, gpus));
        facts.back().gpu_mask = policy.mask;
    }
    const auto planned = hvd::test::plan_on(request, facts);
    if (!planned) {
        return "refused: " + planned.error().message;
    }
    std::string line;
    for (const auto& host : planned->plan.hosts) {
        line += (line.empty() ? "" : " ") + line_of(host);
    }
    for (const auto& warning : planned->warnings) {
        line += " warning: " + warning;
    }
    return line;
}

std::string all_plans() {
    const std::vector<std::pair<const char*, std::vector<Host>>> layouts{
        {"one", {{"a", {}}}},
        {"two written", {{"a", 2}, {"b", 2}}},
        {"uneven", {{"a", 1}, {"b", {}}}},
    };
    const std::vector<Policy> policies{
        {"index", GpuBind::index, 1, false, {}},
        {"env", GpuBind::env, 1, false, {}},
        {"env 2 each", GpuBind::env, 2, false, {}},
        {"env shared", GpuBind::env, 1, true, {}},
        {"env mask 3,0", GpuBind::env, 1, false, "3,0"},
        {"none", GpuBind::none, 1, false, {}},
        {"index mask empty", GpuBind::index, 1, false, ""},
    };
    std::ostringstream text;
    for (const auto& [layout, hosts] : layouts) {
        for (const auto processes : {0, 1, 3, 10}) {
            for (const int gpus : {0, 2, 4}) {
                for (const auto& policy : policies) {
                    LaunchRequest request;
                    request.processes =
                        processes == 0 ? std::nullopt : std::optional<int>(processes);
                    request.hosts.list = hosts;
                    request.command = {"train"};
                    text << layout << ", np " << processes << ", " << gpus << " GPUs, "
                         << policy.name << "\n  " << plan_line(request, policy, gpus) << "\n";
                }
            }
        }
    }
    return text.str();
}

}  // namespace

TEST_CASE("plans of the whole matrix are the golden ones") {
    const std::filesystem::path golden(HVD_GOLDEN_FOLDER "/plans.txt");
    std::ostringstream expected;
    expected << std::ifstream(golden).rdbuf();

    const auto plans = all_plans();

    if (plans != expected.str()) {
        std::ofstream("plans.txt") << plans;
    }
    const auto new_lines = hvd::split(plans, '\n');
    const auto expected_text = expected.str();
    const auto old_lines = hvd::split(expected_text, '\n');
    REQUIRE(new_lines.size() == old_lines.size());
    for (std::size_t index = 0; index + 1 < new_lines.size(); index += 2) {
        CAPTURE(new_lines[index]);
        CHECK(new_lines[index] == old_lines[index]);
        CHECK(new_lines[index + 1] == old_lines[index + 1]);
    }
}
