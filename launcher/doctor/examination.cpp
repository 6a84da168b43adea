// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/examination.hpp"

#include "launcher/fleet/questions.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

namespace hvd::launch {
namespace {

constexpr auto kAnswerLimit = std::chrono::seconds(10);

/// The agents end by themselves when this machine vanishes.
constexpr auto kLease = std::chrono::seconds(30);

}  // namespace

Examination::Examination(IoThread& io,
                         const BlockedSignals& signals,
                         std::string build_id,
                         std::chrono::steady_clock::time_point began_at)
    : io_(io),
      began_at_(began_at),
      fleet_(io, std::move(build_id), kLease),
      signals_(io, signals, [this](int number) { on_signal(number); }) {
    fleet_.listen(
        {.on_message = [this](std::size_t host,
                              wire::FromAgent message) { on_message(host, std::move(message)); },
         .on_end = [this](const AgentEnd& end) { on_end(end); },
         .on_answer = [this](std::size_t host) { on_answer(host); }});
}

// ---- events ----

void Examination::on_signal(int number) {
    if (is_stop_request(number)) {
        stop_signal_ = number;
        io_.stop();
    }
}

void Examination::on_message(std::size_t host, wire::FromAgent message) {
    if (auto* note = std::get_if<wire::Note>(&message)) {
        diagnosis_.hosts[host].warnings.push_back(std::move(note->text));
    } else if (measurement_ != nullptr) {
        measurement_->on_message(host, std::move(message));
    }
}

void Examination::on_end(const AgentEnd& end) {
    auto& health = diagnosis_.hosts[end.host];
    const bool has_linked = health.seconds_to_link > 0;
    health.problems.push_back(has_linked ? "lost: " + end.why : with_remedy(health.host, end.why));
    if (measurement_ != nullptr) {
        measurement_->on_end(end.host);
    }
}

/// The first answer is what the agent tells of its host.
void Examination::on_answer(std::size_t host) {
    auto& seconds = diagnosis_.hosts[host].seconds_to_link;
    if (seconds == 0) {
        seconds = std::chrono::duration<double>(io_.now() - began_at_).count();
    }
}

void Examination::give_up(std::size_t host, const std::string& why) {
    if (stop_signal_ != 0 || fleet_.has_ended(host)) {
        return;
    }
    diagnosis_.hosts[host].problems.push_back(why);
    fleet_.abandon(host, {Errc::timed_out, why});
}

std::vector<std::size_t> Examination::reached() const {
    std::vector<std::size_t> hosts;
    for (std::size_t host = 0; host < fleet_.size(); ++host) {
        if (diagnosis_.hosts[host].facts && !fleet_.has_ended(host)) {
            hosts.push_back(host);
        }
    }
    return hosts;
}

// ---- questions ----

void Examination::link(Starter& starter,
                       const std::vector<Host>& hosts,
                       std::chrono::milliseconds start_timeout) {
    std::ranges::transform(hosts, std::back_inserter(diagnosis_.hosts),
                           [](const Host& host) { return HostHealth{.host = host.name}; });
    auto facts = fleet_.link(starter, hosts, {.deadline = io_.in(start_timeout)});
    for (std::size_t host = 0; host < hosts.size(); ++host) {
        auto& health = diagnosis_.hosts[host];
        health.facts = std::move(facts[host]);
        if (!health.facts) {
            const auto known = fleet_.progress(host);
            give_up(host, "no word within --start-timeout" +
                              (known.empty() ? "; look whether it is up, or allow more time"
                                             : ": " + known));
        } else if (!health.facts->gpu_note.empty()) {
            health.warnings.push_back(health.facts->gpu_note);
        }
    }
}

std::vector<std::size_t> Examination::find_machines() {
    std::vector<std::optional<HostFacts>> facts(fleet_.size());
    for (const auto host : reached()) {
        facts[host] = diagnosis_.hosts[host].facts;
    }
    auto machines = launch::find_machines(fleet_, facts, {.deadline = io_.in(kAnswerLimit)});
    for (std::size_t host = 0; host < facts.size(); ++host) {
        if (facts[host] && !machines.has_answered[host]) {
            give_up(host, "its agent does not answer within 10 s");
        }
        if (const auto first = machines.first[host]; first != host) {
            diagnosis_.hosts[host].same_as = diagnosis_.hosts[first].host;
        }
    }
    return std::move(machines.first);
}

void Examination::check(const LaunchPlan& plan, const std::vector<std::size_t>& hosts) {
    std::vector<Frame> checks(fleet_.size());
    for (std::size_t index = 0; index < hosts.size(); ++index) {
        checks[hosts[index]] = wire::encode(wire::Check{
            .job = plan.job, .plan = plan.hosts[index], .np = plan.np, .is_examination = true});
    }
    const auto answers = check_hosts(fleet_, std::move(checks), {.deadline = io_.in(kAnswerLimit)});
    for (const auto host : hosts) {
        const auto& answer = answers[host];
        auto& health = diagnosis_.hosts[host];
        if (!answer) {
            give_up(host, "its agent does not answer within 10 s; a file system may hang there");
            continue;
        }
        for (const auto& problem : answer->problems) {
            health.problems.push_back(problem.text);
        }
        health.nccl = answer->nccl;
        health.clock = answer->clock;
        if (answer->clock) {
            if (auto warning = warn_of_clock(*answer->clock); !warning.empty()) {
                health.warnings.push_back(std::move(warning));
            }
        }
    }
}

void Examination::measure(const std::vector<std::size_t>& hosts, const LinkOptions& options) {
    LinkMeasurement measurement(io_, fleet_, diagnosis_, hosts, options);
    measurement_ = &measurement;
    measurement.run();
    measurement_ = nullptr;
}

}  // namespace hvd::launch
