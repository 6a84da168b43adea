// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/planner.hpp"

#include "collectives/base/assert.hpp"
#include "collectives/base/text.hpp"
#include "launcher/hosts/host_spec.hpp"
#include "launcher/plan/cpu_shares.hpp"
#include "launcher/plan/environment.hpp"
#include "launcher/plan/gpu_shares.hpp"
#include "launcher/plan/slots.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace hvd::launch {
namespace {

Error refuse(std::string why) {
    return {Errc::invalid_argument, std::move(why)};
}

/// The facts about one host before its ranks are planned.
struct Site {
    const Host* host = nullptr;
    const std::string* starter = nullptr;
    const HostFacts* facts = nullptr;
    VisibleGpus visible;
};

class Planner {
public:
    Planner(const LaunchRequest& request,
            const LaunchContext& context,
            std::span<const PlanHost> hosts)
        : request_(request),
          context_(context),
          shared_(shared_environment(request.environment, context.environment)),
          is_all_here_(std::ranges::all_of(hosts, &PlanHost::is_here)) {
        for (const auto name : {kVisibleDevices, kDeviceOrder}) {
            const auto set = find(request.environment.set, name);
            if (const auto value = set ? set : find(shared_, name)) {
                present_.emplace(name, *value);
            }
        }
        if (const auto set = find(request.environment.set, kGpuOperations)) {
            present_.emplace(kGpuOperations, *set);
        }
        for (const auto& host : hosts) {
            sites_.push_back({.host = &host.host,
                              .starter = &host.starter,
                              .facts = &host.facts,
                              .visible = apply_gpu_mask(
                                  host.facts.gpus, gpu_mask(request.environment.set, host.facts))});
        }
    }

    Result<Planned> plan() {
        HVD_TRY_STATUS(check_env_set(request_.environment.set));
        std::vector<Capacity> capacities;
        for (const auto& site : sites_) {
            const int counted = count_slots(request_.binding, *site.facts, site.visible);
            const int slots = site.host->slots.value_or(counted);
            const bool is_by_gpus =
                request_.hosts.slots_are_cpus && !site.visible.gpus.empty() && counted < slots;
            capacities.push_back({.host = site.host->name,
                                  .slots = is_by_gpus ? counted : slots,
                                  .is_written = site.host->slots.has_value() && !is_by_gpus});
        }
        HVD_TRY(const auto ranks_on, fill_hosts(capacities, request_.processes));
        ranks_ = number_ranks(ranks_on);
        HVD_TRY_STATUS(check_input());

        planned_.plan.mode = "native";
        planned_.plan.np = static_cast<int>(ranks_.size());
        planned_.plan.job = plan_job();
        planned_.plan.hosts.reserve(sites_.size());
        for (std::size_t index = 0; index < sites_.size(); ++index) {
            HVD_TRY(auto host, plan_host(index, ranks_on[index]));
            host.slots = capacities[index].slots;
            planned_.plan.hosts.push_back(std::move(host));
        }
        if (is_gpu_shared_) {  // on some host: the ranks of all hosts take the same way
            planned_.plan.job.ranks_env.emplace(kGpuOperations, "host");
        }
        if (is_all_here_) {
            planned_.plan.job.env = std::move(shared_);
        }
        return std::move(planned_);
    }

private:
    Status check_input() const {
        for (const auto& [flag, rank] : {std::pair{"--stdin", request_.input.rank},
                                         std::pair{"--pty", request_.input.terminal_rank}}) {
            if (rank.value_or(0) >= static_cast<int>(ranks_.size())) {
                return refuse(std::string(flag) + " names rank " + std::to_string(*rank) +
                              ", but the ranks are 0 to " + std::to_string(ranks_.size() - 1));
            }
        }
        return ok();
    }

    JobPlan plan_job() {
        JobPlan job{.id = context_.job_id,
                    .env = {},
                    .ranks_env = {},
                    .cwd = context_.cwd,
                    .argv = request_.command,
                    .is_env_clean = request_.environment.is_clean};
        if (!is_all_here_) {
            job.env = portable_environment(request_.environment, shared_);
            only_here_ = shared_;
            std::erase_if(only_here_,
                          [&](const auto& entry) { return job.env.contains(entry.first); });
        }
        job.ranks_env = job_variables(
            request_.environment, shared_,
            {.contract = {.topology = {.size = planned_.plan.np},
                          .hostname = {},
                          .job_id = context_.job_id,
                          .agent_socket = {},
                          .lease = std::chrono::ceil<std::chrono::seconds>(request_.limits.lease),
                          .may_shrink = request_.limits.on_failure == OnFailure::wait},
             .master_address = master_address(),
             .master_port = sites_.front().facts->free_port,
             .is_one_host = sites_.size() == 1});
        return job;
    }

    Result<HostPlan> plan_host(std::size_t index, int local_size) {
        const auto& site = sites_[index];
        const bool is_here = *site.starter == kLocalStarter;
        HostPlan host{.host = site.host->name,
                      .starter = *site.starter,
                      .slots = 0,
                      .agent_socket = "horovod-" + context_.job_id + "-" + std::to_string(index),
                      .env = is_here ? only_here_ : Environment(),
                      .inherits_env = !is_here && !request_.environment.is_clean,
                      .ranks_env = {},
                      .ranks = {},
                      .stdin_rank = -1,
                      .stdin_all = request_.input.is_for_all,
                      .grace = request_.limits.grace};
        HVD_TRY(auto gpus, share_gpus(request_.binding, site.facts->hostname, site.visible,
                                      local_size, present_));
        warn_about_gpus(site);
        is_gpu_shared_ = is_gpu_shared_ || std::ranges::any_of(gpus, [](const GpuShare& share) {
                             return share.env.contains(kGpuOperations);
                         });
        HVD_TRY(auto cpus, plan_cpus(site, gpus));
        plan_ranks(host, std::move(gpus), std::move(cpus));
        return host;
    }

    void plan_ranks(HostPlan& host,
                    std::vector<GpuShare> gpus,
                    std::vector<std::vector<int>> cpus) {
        if (gpus.empty()) {
            return;
        }
        const auto threads = [&](std::size_t local) {
            return std::max(1, static_cast<int>(cpus[local].size()));
        };
        const int threads_here = threads(0);
        host.ranks_env =
            host_variables(request_.environment, shared_,
                           {.contract = {.topology = {.local_size = static_cast<int>(gpus.size())},
                                         .hostname = host.host,
                                         .job_id = context_.job_id,
                                         .agent_socket = host.agent_socket},
                            .cpus = threads_here});
        host.ranks.reserve(gpus.size());
        for (std::size_t local = 0; local < gpus.size(); ++local) {
            const auto& topology = ranks_[next_rank_++];
            RankSettings settings{
                .topology = topology, .cpus = {}, .gpus = std::move(gpus[local].env)};
            if (const int own = threads(local); own != threads_here) {
                settings.cpus = own;
            }
            if (topology.rank == request_.input.terminal_rank) {
                settings.terminal = find(context_.environment, "TERM").value_or("");
            }
            host.ranks.push_back(
                {.rank = topology.rank,
                 .local_rank = topology.local_rank,
                 .local_size = topology.local_size,
                 .cross_rank = topology.cross_rank,
                 .cross_size = topology.cross_size,
                 .gpus = std::move(gpus[local].gpus),
                 .cpus = request_.binding.cpus == BindTo::share ? std::move(cpus[local])
                                                                : std::vector<int>(),
                 .env = rank_variables(request_.environment, shared_, std::move(settings)),
                 .cwd = {},
                 .argv = {}});
            const auto& input = request_.input;
            if (topology.rank == input.terminal_rank || topology.rank == input.rank) {
                host.stdin_rank = topology.rank;
                host.has_terminal = input.terminal_rank.has_value();
            }
        }
    }

    void warn_about_gpus(const Site& site) {
        std::ranges::copy(site.visible.warnings, std::back_inserter(planned_.warnings));
        if (request_.binding.gpus == GpuBind::none || site.visible.is_cpu_only) {
            return;
        }
        const auto& gpus = site.facts->gpus;
        if (!site.facts->gpu_note.empty()) {
            planned_.warnings.push_back(site.host->name +
                                        (gpus.empty() ? ": no rank gets a GPU: " : ": ") +
                                        site.facts->gpu_note);
        }
        const auto order = find(present_, kDeviceOrder);
        const auto is_other = [&](const Gpu& gpu) { return gpu.name != gpus.front().name; };
        if (order && *order != kPciOrder && std::ranges::any_of(gpus, is_other)) {
            planned_.warnings.push_back(
                std::string(kDeviceOrder) + "=" + *order + ": the GPUs of " + site.host->name +
                " differ, so ranks may number them in another order than planned; leave it unset");
        }
    }

    /// The share of each rank; empty ones when there are more ranks than CPUs.
    Result<std::vector<std::vector<int>>> plan_cpus(const Site& site,
                                                    const std::vector<GpuShare>& gpus) {
        const auto ranks = gpus.size();
        const auto cpus = site.facts->cpus.size();
        if (ranks > cpus) {
            const auto both = std::to_string(ranks) + " ranks on the " + std::to_string(cpus) +
                              (cpus == 1 ? " CPU of " : " CPUs of ") + site.host->name;
            if (!request_.binding.may_oversubscribe) {
                return refuse(both + ", and --no-oversubscribe was given; start fewer ranks there");
            }
            if (ranks > kMostRanksPerCpu * std::max<std::size_t>(cpus, 1) &&
                !request_.binding.may_overload) {
                return refuse(both + " are more than " + std::to_string(kMostRanksPerCpu) +
                              " for each CPU; start fewer ranks there, or insist with "
                              "--oversubscribe");
            }
            planned_.warnings.push_back(both + " will be slow: they share them, none is pinned");
        }
        std::vector<std::vector<int>> near;
        for (const auto& share : gpus) {
            auto& close = near.emplace_back();
            for (const auto& gpu : share.gpus) {
                close.insert(close.end(), gpu.cpus.begin(), gpu.cpus.end());
            }
        }
        return share_cpus(site.facts->cpus, near);
    }

    /// Where rank 0 listens when a script asks torch.distributed to meet there.
    [[nodiscard]] std::string master_address() const {
        if (sites_.size() == 1) {
            return "127.0.0.1";
        }
        const auto& name = sites_.front().host->name;
        if (name == "localhost") {  // means another machine on each of them
            return sites_.front().facts->hostname;
        }
        return name.starts_with('[') ? name.substr(1, name.size() - 2) : name;
    }

    const LaunchRequest& request_;
    const LaunchContext& context_;
    Environment shared_;
    bool is_all_here_;
    Environment present_;    // what the ranks have of GPUs before the planner adds anything
    Environment only_here_;  // of `shared_`, what does not travel
    std::vector<Site> sites_;
    bool is_gpu_shared_ = false;
    std::vector<coll::Topology> ranks_;
    std::size_t next_rank_ = 0;
    Planned planned_;
};

}  // namespace

Status merge_machines(std::vector<PlanHost>& hosts, const std::vector<std::size_t>& machines) {
    std::vector<Host> merged;
    std::ranges::transform(hosts, std::back_inserter(merged), &PlanHost::host);
    HVD_TRY_STATUS(merge_machines(merged, machines));
    for (std::size_t index = 0; index < hosts.size(); ++index) {
        hosts[index].host = std::move(merged[index]);
    }
    return ok();
}

Result<Planned> make_plan(const LaunchRequest& request,
                          const LaunchContext& context,
                          std::span<const PlanHost> hosts) {
    HVD_ASSERT(!hosts.empty(), "a plan needs a host");
    return Planner(request, context, hosts).plan();
}

}  // namespace hvd::launch
