// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/slurm/slurm_hosts.hpp"

#include "collectives/base/env.hpp"
#include "collectives/base/text.hpp"
#include "launcher/hosts/slurm_variables.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/remote/agent_file.hpp"
#include "launcher/remote/bootstrap/agent_image.hpp"
#include "launcher/remote/command/ssh_command.hpp"
#include "launcher/remote/host_starters.hpp"
#include "launcher/remote/join/listener.hpp"
#include "launcher/remote/slurm/srun_line.hpp"
#include "launcher/remote/slurm/srun_step.hpp"
#include "launcher/wire/build_id.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

using Steps = std::vector<std::unique_ptr<SrunStep>>;

/// Why the agents of these nodes have not dialled.
using Reasons = std::map<std::string, Error, std::less<>>;

/// Gives the connections of those who joined, and keeps the sruns that started them.
class SrunStarter final : public Starter {
public:
    SrunStarter(std::shared_ptr<Say> say_line,
                Steps steps,
                std::unique_ptr<Starter> joined,
                std::vector<SrunOrder> orders,
                Reasons reasons)
        : say_before_(*say_line),
          say_line_(std::move(say_line)),
          steps_(std::move(steps)),
          joined_(std::move(joined)),
          orders_(std::move(orders)),
          reasons_(std::move(reasons)) {}

    [[nodiscard]] std::string_view name() const noexcept override { return "srun"; }
    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& host) override {
        auto started = joined_->start(host);
        const auto reason = reasons_.find(host.name);
        return !started && reason != reasons_.end() ? reason->second : std::move(started);
    }
    void say_through(const Say& say_line) override {
        *say_line_ = say_line ? say_line : say_before_;
    }
    [[nodiscard]] std::string way_to(const Host& host) const override {
        const auto order = std::ranges::find_if(orders_, [&](const SrunOrder& one) {
            return std::ranges::find(one.nodes, host.name) != one.nodes.end();
        });
        return order == orders_.end() ? "srun" : show_command(srun_line(*order));
    }

private:
    Say say_before_;  // while no job runs
    std::shared_ptr<Say> say_line_;
    Steps steps_;
    std::unique_ptr<Starter> joined_;
    std::vector<SrunOrder> orders_;
    Reasons reasons_;
};

bool is_loopback(std::string_view address) {
    return address.starts_with("127.") || address == "::1" || address.starts_with("fe80:");
}

/// Ours, as nodes may reach them, should the one not do that Slurm tells them.
std::vector<std::string> reachable_addresses(bool is_six) {
    std::vector<std::string> found;
    for (const auto& address : this_machine().addresses) {
        const bool has_colon = address.find(':') != std::string::npos;
        if (!is_loopback(address) && has_colon == is_six) {
            found.push_back(is_six ? "[" + address + "]" : address);
        }
    }
    return found;
}

/// All addresses, any port.
SocketAddress any_address(bool is_six) {
    SocketAddress address;
    if (is_six) {
        sockaddr_in6 six{};
        six.sin6_family = AF_INET6;
        std::memcpy(&address.storage, &six, sizeof six);
        address.size = sizeof six;
    } else {
        sockaddr_in four{};
        four.sin_family = AF_INET;
        std::memcpy(&address.storage, &four, sizeof four);
        address.size = sizeof four;
    }
    return address;
}

int port_of(const SocketAddress& address) {
    const auto text = to_string(address);
    return parse_number<int>(std::string_view(text).substr(text.rfind(':') + 1)).value_or(0);
}

/// The bytes of `hvd-agent`, for nodes that do not have it.
Result<std::string> agent_bytes(const std::string& file) {
    HVD_TRY(auto image, load_agent_image(file, wire::build_id()));
    return std::move(image.file);
}

Error with_words(Error error, const Steps& steps) {
    std::string words;
    for (const auto& step : steps) {
        const auto more = step->words();
        words += (words.empty() || more.empty() ? "" : " | ") + more;
    }
    error.message += words.empty() ? "; srun has said nothing" : "; srun says: " + words;
    return error;
}

/// Of nodes whose agents did not dial.
std::string remedy_for(const SrunOrder& order) {
    return "see whether Slurm starts steps there (srun --jobid=" + order.job_id +
           " --overlap --nodelist=NODE true) and whether connections from there to port " +
           std::to_string(order.port) + " of " +
           (order.addresses.empty() ? "this machine" : order.addresses.front()) +
           " pass the firewalls (--port-range chooses the port), or allow more time with "
           "--start-timeout";
}

/// That of the step to which a node belongs, else the one of all.
Reasons reasons_of(const std::vector<SrunOrder>& orders,
                   const std::vector<std::optional<Error>>& ends,
                   const Error& otherwise) {
    Reasons reasons;
    for (std::size_t index = 0; index < orders.size(); ++index) {
        for (const auto& node : orders[index].nodes) {
            reasons.emplace(node, ends[index].value_or(otherwise));
        }
    }
    return reasons;
}

/// A step for each component of the job that has requested nodes; `common` has the values of all.
std::vector<SrunOrder> orders_of(const LaunchRequest& request, const SrunOrder& common) {
    const auto& job = *request.hosts.slurm_job;
    std::vector<SrunOrder> orders;
    for (std::size_t index = 0; index < job.components.size(); ++index) {
        const auto& component = job.components[index];
        const std::set<std::string> nodes(component.nodes.begin(), component.nodes.end());
        auto order = common;
        if (job.is_heterogeneous) {
            order.component = index;
        }
        for (const auto& host : request.hosts.list) {
            if (!nodes.contains(host.name)) {
                continue;
            }
            order.nodes.push_back(host.name);
            if (component.has_gpus_by_task) {
                order.tasks.push_back(host.slots.value_or(1));
            }
        }
        if (!order.nodes.empty()) {
            orders.push_back(std::move(order));
        }
    }
    return orders;
}

Result<std::unique_ptr<JoinListener>> open_listener(IoThread& io,
                                                    const LaunchRequest& request,
                                                    const wire::Key& key,
                                                    bool is_six,
                                                    const Say& say) {
    return JoinListener::open(
        io, {.address = any_address(is_six),
             .ports = request.hosts.ports,
             .expected = {.hosts = request.hosts.list},
             .token = key,
             .build_id = std::string(wire::build_id()),
             .say =
                 [say, is_told = request.report.is_verbose](const std::string& what) {
                     if (is_told) {
                         say(what);
                     }
                 },
             .starter = "srun"});
}

Result<Steps> start_steps(IoThread& io,
                          const std::vector<SrunOrder>& orders,
                          const SrunStep::Spawn& common,
                          const std::shared_ptr<Say>& say_line,
                          const std::function<void(std::size_t, const Error&)>& on_end) {
    Steps steps;
    for (std::size_t index = 0; index < orders.size(); ++index) {
        auto spawn = common;
        spawn.line = srun_line(orders[index]);
        HVD_TRY(
            auto step,
            SrunStep::start(
                io, std::move(spawn),
                {.on_line = [say_line](const std::string& line) { (*say_line)("srun: " + line); },
                 .on_end = [index, on_end](const Error& why) { on_end(index, why); }}));
        steps.push_back(std::move(step));
    }
    return steps;
}

}  // namespace

Result<Gathered> gather_slurm_nodes(IoThread& io,
                                    const BlockedSignals& signals,
                                    const LaunchRequest& request,
                                    Deadline deadline,
                                    int& stop_signal,
                                    const SlurmOptions& options) {
    HVD_TRY(const auto agent, find_agent_file(starter_context(signals, request.limits)));
    HVD_TRY(auto image, agent_bytes(agent));
    const bool is_six = reachable_addresses(false).empty() && !reachable_addresses(true).empty();
    const auto token = wire::make_join_token();
    HVD_TRY(const auto key, wire::join_key(token));
    HVD_TRY(auto listener, open_listener(io, request, key, is_six, options.say));
    const SrunOrder order{.job_id = request.hosts.slurm_job->id,
                          .nodes = {},
                          .file = agent,
                          .build_id = std::string(wire::build_id()),
                          .bytes = image.size(),
                          .port = port_of(listener->address()),
                          .addresses = reachable_addresses(is_six),
                          .timeout = request.limits.start_timeout};
    const auto orders = orders_of(request, order);
    std::vector<std::optional<Error>> ends(orders.size());  // of the sruns
    const auto on_end = [&](std::size_t step, const Error& error) {
        ends[step] = error;
        const auto has_ended = [](const auto& end) { return end.has_value(); };
        if (options.missing == Missing::fail || std::ranges::all_of(ends, has_ended)) {
            listener->give_up(error);
        }
    };
    const auto say_line = std::make_shared<Say>(options.say);
    HVD_TRY(auto steps, start_steps(io, orders,
                                    {.line = {},
                                     .environment = srun_environment(current_environment()),
                                     .signal_mask = signals.original_mask(),
                                     .token = token,
                                     .agent = std::move(image)},
                                    say_line, on_end));
    const SignalSource source(io, signals, [&](int number) {
        if (is_stop_request(number)) {
            stop_signal = number;
            listener->give_up({Errc::aborted, "stopped by " + signal_name(number) +
                                                  " while srun was starting the agents"});
        } else if (number == SIGTSTP) {
            stop_self();
        }
    });
    auto joined = listener->gather(deadline, remedy_for(order));
    std::optional<Error> why;
    if (!joined) {
        why = joined.error().code == Errc::timed_out ? with_words(joined.error(), steps)
                                                     : joined.error();
        if (options.missing == Missing::fail || stop_signal != 0) {
            return *why;
        }
        joined = listener->take_joined();
    }
    std::ranges::for_each(steps, [](const auto& step) { step->all_are_there(); });
    Gathered gathered;
    for (auto& host : joined->hosts) {
        gathered.placed.push_back({.host = std::move(host), .is_here = false});
    }
    gathered.starter =
        std::make_unique<SrunStarter>(say_line, std::move(steps), std::move(joined->starter),
                                      orders, why ? reasons_of(orders, ends, *why) : Reasons());
    return gathered;
}

}  // namespace hvd::launch
