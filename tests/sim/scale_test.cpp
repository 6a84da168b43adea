// SPDX-License-Identifier: Apache-2.0
//
// The cost of thousands of ranks in time and memory. Each case runs in another process.
#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/plan/planner.hpp"
#include "tests/sim/run.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <malloc.h>

using namespace std::chrono_literals;
using hvd::launch::make_plan;
using hvd::sim::run;
using hvd::sim::Script;

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr int kRanksPerHost = 8;

/// The most memory that this process had since `forget_peak`, in MiB.
std::size_t peak_mebibytes() {
    constexpr std::size_t kKibibyte = 1024;
    const auto status = hvd::read_file("/proc/self/status", kMebibyte);
    for (const auto line : hvd::split(*status, '\n')) {
        if (line.starts_with("VmHWM:")) {
            const auto number = hvd::trim(line.substr(6));
            return *hvd::parse_number<std::size_t>(number.substr(0, number.find(' '))) / kKibibyte;
        }
    }
    return 0;
}

void forget_peak() {
    std::ofstream("/proc/self/clear_refs") << "5";
}

struct Cluster {
    hvd::launch::LaunchRequest request;
    hvd::launch::LaunchContext context;
    std::vector<hvd::launch::PlanHost> hosts;

    [[nodiscard]] auto plan() const { return make_plan(request, context, hosts); }
};

Cluster cluster(int hosts) {
    Cluster made;
    for (int host = 0; host < hosts; ++host) {
        const auto name = "node" + std::to_string(host);
        made.hosts.push_back(
            {.host = {.name = name, .slots = kRanksPerHost, .user = {}, .port = {}},
             .starter = "simulated",
             .facts = {}});
        auto& facts = made.hosts.back().facts;
        facts.hostname = name;
        facts.machine = "x86_64";
        for (int cpu = 0; cpu < 2 * kRanksPerHost; ++cpu) {
            facts.cpus.push_back(cpu);
        }
        facts.free_port = 29'500;
    }
    made.request.processes = hosts * kRanksPerHost;
    made.request.command = {"python", "train.py"};
    made.context.cwd = "/home/user/project";
    made.context.job_id = "0123456789abcdef0123456789abcdef";
    for (int name = 0; name < 40; ++name) {
        made.context.environment.emplace("VARIABLE_" + std::to_string(name), std::string(60, 'x'));
    }
    return made;
}

Script script(int hosts) {
    Script made;
    made.hosts.resize(static_cast<std::size_t>(hosts));
    for (auto& host : made.hosts) {
        host.ranks.resize(kRanksPerHost);
        for (auto& rank : host.ranks) {
            rank.lives = 20s;
        }
    }
    made.lease = 30s;
    return made;
}

void run_cluster(int hosts, std::size_t most_mebibytes) {
    forget_peak();
    const auto before = peak_mebibytes();
    const auto request = cluster(hosts);
    const auto planned = request.plan();
    REQUIRE(planned);

    const auto outcome = run(script(hosts), planned->plan);

    for (const auto& complaint : outcome.complaints) {
        FAIL_CHECK(complaint);
    }
    REQUIRE(outcome.result);
    CHECK(outcome.result->exit_code == 0);
    CHECK(outcome.last_start <= 3s);
    WARN(hosts << " hosts x " << kRanksPerHost << ": last start after "
               << outcome.last_start.count() << " ms, memory " << before << " to "
               << peak_mebibytes() << " MiB");
    CHECK(peak_mebibytes() < most_mebibytes);
}

}  // namespace

TEST_CASE("1024 ranks on 128 hosts need less than 16 MiB in the launcher") {
    run_cluster(128, 16);
}

TEST_CASE("1024 hosts with 8 ranks each need less than 32 MB, the last starts within 3 s") {
    run_cluster(1024, 30);  // 32 MB
}

// The aim is 0.5 s. The bound on the time is wide, since other programs may run beside this one.
TEST_CASE("10000 hosts with 8 ranks each are planned in 200 MB") {
    const auto request = cluster(10'000);
    forget_peak();

    const auto before = ::mallinfo2().uordblks;
    const auto begin = std::chrono::steady_clock::now();
    const auto planned = request.plan();
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    const auto plan_mebibytes = (::mallinfo2().uordblks - before) / kMebibyte;

    REQUIRE(planned);
    CHECK(planned->plan.np == 80'000);
    WARN("planned in " << took.count() << " ms, the plan has " << plan_mebibytes << " MiB, at most "
                       << peak_mebibytes() << " MiB in all");
    CHECK(plan_mebibytes < 120);
    CHECK(peak_mebibytes() < 190);  // 200 MB
    CHECK(took < 3s);
}
