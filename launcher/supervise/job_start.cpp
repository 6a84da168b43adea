// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/job_start.hpp"

#include "collectives/base/text.hpp"
#include "launcher/fleet/questions.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/output/write_all.hpp"
#include "launcher/supervise/link_failures.hpp"
#include "launcher/supervise/plan_frames.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <variant>

#include <unistd.h>

namespace hvd::launch {
namespace {

/// How long the others may still link, or fail too, once one has failed: who has several bad hosts
/// should learn of them all at once.
constexpr auto kOthersTimeout = std::chrono::seconds(2);

constexpr int kFewRanks = 256;

template <class Answer>
std::vector<bool> which(const std::vector<std::optional<Answer>>& answers) {
    std::vector<bool> has_answered;
    std::ranges::transform(answers, std::back_inserter(has_answered),
                           [](const auto& answer) { return answer.has_value(); });
    return has_answered;
}

}  // namespace

bool needs_check(const LaunchPlan& plan) {
    return plan.np > kFewRanks || !std::ranges::all_of(plan.hosts, [](const HostPlan& host) {
               return host.starter == kLocalStarter;
           });
}

JobStart::JobStart(IoThread& io,
                   AgentFleet& fleet,
                   JobSignals& signals,
                   Deadline deadline,
                   LaunchTrace* trace)
    : io_(io), fleet_(fleet), signals_(signals), trace_(trace), deadline_(deadline), timer_(io) {
    fleet_.listen(
        {.on_message = [this](std::size_t host,
                              const wire::FromAgent& message) { on_message(host, message); },
         .on_end = [this](const AgentEnd& end) { on_end(end); },
         .on_answer =
             [this](std::size_t host) {
                 if (trace_ != nullptr) {
                     trace_->done(host, io_.now());
                 }
             },
         .on_silence =
             [this](std::size_t /*host*/, const std::string& sentence) {
                 notes_ += "horovodrun: " + sentence + "\n";
             }});
    signals_.listen({.on_stop_request = [this](int signal) { on_stop_request(signal); }});
}

// ---- questions ----

Result<std::vector<HostFacts>> JobStart::link(Starter& starter, const std::vector<Host>& hosts) {
    enter("link");
    facts_ = fleet_.link(starter, hosts, timeout());
    HVD_TRY_STATUS(require(which(facts_)));
    std::vector<HostFacts> facts;
    for (const auto& host_facts : facts_) {
        facts.push_back(*host_facts);
    }
    return facts;
}

Status JobStart::settle(std::vector<PlanHost>& hosts, const std::optional<PortSpan>& ports) {
    if (!std::ranges::all_of(hosts, &PlanHost::is_here)) {
        HVD_TRY(const auto machines, find_machines());
        HVD_TRY_STATUS(merge_machines(hosts, machines));
    }
    if (ports) {
        HVD_TRY(hosts.front().facts.free_port, pick_port(*ports));
    }
    return ok();
}

Result<std::vector<std::size_t>> JobStart::find_machines() {
    enter("which hosts are one machine");
    auto machines = launch::find_machines(fleet_, facts_, timeout());
    HVD_TRY_STATUS(require(machines.has_answered));
    return std::move(machines.first);
}

Result<int> JobStart::pick_port(const PortSpan& ports) {
    enter("port");
    const auto answers = fleet_.ask<wire::PortPicked>(
        {wire::encode(wire::PickPort{.first = ports.first, .last = ports.last})}, timeout());
    HVD_TRY_STATUS(require({answers.front().has_value()}));
    const auto& picked = *answers.front();
    if (picked.port == 0) {
        return Error{Errc::invalid_argument, "no port from " + std::to_string(ports.first) +
                                                 " to " + std::to_string(ports.last) +
                                                 " is free on " + fleet_.name(0) +
                                                 " for MASTER_PORT" + picked.taken +
                                                 "; give --port-range (HOROVOD_PORT_RANGE) more"};
    }
    return picked.port;
}

Status JobStart::check(const LaunchPlan& plan) {
    enter("preflight");
    HVD_TRY(auto checks, encode_checks(plan));
    auto answers = check_hosts(fleet_, std::move(checks), timeout());
    HVD_TRY_STATUS(require(which(answers)));
    for (std::size_t host = 0; host < answers.size(); ++host) {
        for (auto& problem : answers[host]->problems) {
            problems_.push_back({.host = fleet_.name(host), .problem = std::move(problem)});
        }
        if (const auto& clock = answers[host]->clock) {
            if (const auto warning = warn_of_clock(*clock); !warning.empty()) {
                note(host, warning);
            }
        }
    }
    return problems_.empty() ? ok()
                             : Status(Error{Errc::unavailable, "a host cannot run its ranks"});
}

Status JobStart::wait_until(const std::function<bool()>& is_done, const std::string& late) {
    is_waiting_elsewhere_ = true;
    timer_.set(deadline_, [&] {
        error_ = {Errc::timed_out, late};
        io_.stop();
    });
    while (!is_done() && !error_) {
        io_.run();
    }
    timer_.cancel();
    is_waiting_elsewhere_ = false;
    return error_ ? Status(*error_) : ok();
}

AgentFleet::Timeout JobStart::timeout() const {
    return {.deadline = deadline_, .after_an_end = kOthersTimeout};
}

void JobStart::enter(std::string step) {
    if (trace_ != nullptr) {
        trace_->enter(std::move(step), io_.now());
    }
}

// ---- failures ----

void JobStart::on_stop_request(int signal) {
    error_ = {Errc::aborted, "stopped by " + signal_name(signal)};
    io_.stop();
}

void JobStart::on_message(std::size_t host, const wire::FromAgent& message) {
    if (const auto* said = std::get_if<wire::Note>(&message)) {
        note(host, said->text);
    }
}

void JobStart::note(std::size_t host, const std::string& text) {
    notes_ += "horovodrun: host " + fleet_.name(host) + ": " + text + "\n";
}

/// The first end decides the last line of the report.
void JobStart::on_end(const AgentEnd& end) {
    failures_.emplace(end.host, end.why);
    if (!error_) {
        error_ = {Errc::unavailable, (end.is_silent ? "lost host " + fleet_.name(end.host) + ": "
                                                    : "the agent on host " + fleet_.name(end.host) +
                                                          " did not report: ") +
                                         end.why};
    }
    if (is_waiting_elsewhere_) {
        io_.stop();
    }
}

/// An error unless all of these hosts have answered, and no agent has failed.
Status JobStart::require(const std::vector<bool>& has_answered) {
    std::vector<std::size_t> missing;
    for (std::size_t host = 0; host < has_answered.size(); ++host) {
        if (!has_answered[host] && !fleet_.has_ended(host)) {
            missing.push_back(host);
        }
    }
    if (!error_ && !missing.empty()) {
        miss(missing);
    } else if (!failures_.empty()) {
        std::ranges::transform(missing, std::back_inserter(not_awaited_),
                               [this](std::size_t host) { return fleet_.name(host); });
    }
    return error_ ? Status(*error_) : ok();
}

void JobStart::miss(const std::vector<std::size_t>& hosts) {
    is_late_ = true;
    std::vector<std::string> names;
    for (const auto host : hosts) {
        names.push_back(fleet_.name(host));
        auto why = fleet_.progress(host);
        if (!facts_.empty() && facts_[host]) {
            why = "its agent does not answer any more; a file system may hang there";
        } else if (why.empty()) {
            why = "no word from its agent";
        }
        failures_.emplace(host, std::move(why));
    }
    error_ = {Errc::timed_out, "no word within --start-timeout from " + short_list(names) +
                                   "; look whether they can be reached, or allow more time"};
}

std::vector<HostResult> JobStart::failures() const {
    std::vector<HostResult> failures;
    for (const auto& [host, why] : failures_) {
        failures.push_back({.host = fleet_.name(host), .state = "lost", .error = why});
    }
    return failures;
}

StartFailure JobStart::give_up(const Error& error) {
    if (!problems_.empty()) {
        auto failure = failed_preflight(problems_);
        dismiss(failure.result.exit_code);
        return failure;
    }
    const auto hosts = failures();
    const bool is_told_last = hosts.size() == 1 && !is_late_;
    auto failure = failed_start(error, signals_.stop_signal(), hosts);
    auto words = tell_link_failures(is_told_last ? std::vector<HostResult>() : hosts, not_awaited_);
    failure.words.insert(failure.words.begin(), words.begin(), words.end());
    dismiss(failure.result.exit_code);
    return failure;
}

void JobStart::dismiss(int exit_code) {
    signals_.listen({});
    if (exit_code == 0) {
        (void)write_all(STDERR_FILENO, notes_);  // of hosts that would do; else an error has these
    }
    fleet_.dismiss(exit_code);
}

}  // namespace hvd::launch
