// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/examination.hpp"

#include "collectives/base/wall_clock.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace hvd::launch {
namespace {

constexpr auto kAnswerLimit = std::chrono::seconds(10);
constexpr auto kAgentPatience = std::chrono::seconds(5);

/// The agents end by themselves when this machine vanishes.
constexpr auto kPulse = std::chrono::seconds(5);
constexpr std::int64_t kLeaseMs = 30'000;

}  // namespace

Examination::Examination(IoThread& io,
                         const BlockedSignals& signals,
                         std::string build_id,
                         std::chrono::steady_clock::time_point began_at)
    : io_(io),
      build_id_(std::move(build_id)),
      began_at_(began_at),
      agents_(
          {.on_message = [this](std::size_t host,
                                wire::FromAgent message) { on_message(host, std::move(message)); },
           .on_end = [this](std::size_t host) { on_agent_end(host); },
           .on_heard = [](std::size_t /*host*/) {}}),
      signals_(io, signals, [this](int number) { on_signal(number); }),
      limit_(io),
      pulse_(io) {}

void Examination::on_signal(int number) {
    if (is_stop_request(number)) {
        stop_signal_ = number;
        io_.stop();
    }
}

// ---- linking ----

void Examination::link(Starter& starter,
                       const std::vector<Host>& hosts,
                       std::chrono::milliseconds start_timeout) {
    patients_.resize(hosts.size());
    for (std::size_t index = 0; index < hosts.size(); ++index) {
        diagnosis_.hosts.push_back({.host = hosts[index].name});
        patients_[index].is_awaited = true;
    }
    agents_.start(io_, starter, hosts);
    wait(start_timeout);
    for (std::size_t host = 0; host < hosts.size(); ++host) {
        if (patients_[host].is_awaited && stop_signal_ == 0) {
            const auto known = agents_.progress(host);
            give_up(host, "no word within --start-timeout" +
                              (known.empty() ? "; look whether it is up, or allow more time"
                                             : ": " + known));
        }
    }
    keep_alive();
}

/// Until every answer is there, or time is over.
void Examination::wait(std::chrono::milliseconds limit) {
    if (stop_signal_ != 0 || std::ranges::none_of(patients_, &Patient::is_awaited)) {
        return;
    }
    limit_.set(io_.in(limit), [this] { io_.stop(); });
    io_.run();
    limit_.cancel();
}

void Examination::end_wait_if_done() {
    if (std::ranges::none_of(patients_, &Patient::is_awaited) &&
        (!schedule_ || schedule_->is_over())) {
        io_.stop();
    }
}

void Examination::answered(std::size_t host) {
    patients_[host].is_awaited = false;
    end_wait_if_done();
}

void Examination::give_up(std::size_t host, const std::string& why) {
    auto& patient = patients_[host];
    patient.is_awaited = false;
    patient.is_lost = true;
    diagnosis_.hosts[host].problems.push_back(why);
    agents_.abandon(host, {Errc::timed_out, why});
}

void Examination::keep_alive() {
    for (const auto host : reached()) {
        agents_.send(host, wire::Ping{.asked_ns = 0, .lease_ms = kLeaseMs});
    }
    pulse_.set(io_.in(kPulse), [this] { keep_alive(); });
}

std::vector<std::size_t> Examination::reached() const {
    std::vector<std::size_t> hosts;
    for (std::size_t host = 0; host < patients_.size(); ++host) {
        if (diagnosis_.hosts[host].facts && !patients_[host].is_lost) {
            hosts.push_back(host);
        }
    }
    return hosts;
}

void Examination::dismiss() {
    is_dismissed_ = true;
    pulse_.cancel();
    agents_.close();
    if (!agents_.all_ended()) {
        limit_.set(io_.in(kAgentPatience), [this] { io_.stop(); });
        io_.run();
        limit_.cancel();
    }
}

// ---- what the agents say ----

void Examination::on_message(std::size_t host, wire::FromAgent message) {
    if (!is_dismissed_ && !patients_[host].is_lost) {
        std::visit([&](auto& event) { on(host, event); }, message);
    }
}

void Examination::on_agent_end(std::size_t host) {
    if (is_dismissed_) {
        if (agents_.all_ended()) {
            io_.stop();
        }
        return;
    }
    auto& patient = patients_[host];
    if (std::exchange(patient.is_lost, true)) {
        return;
    }
    auto& health = diagnosis_.hosts[host];
    const auto& error = agents_.end_of(host);
    const auto words = error ? error->message : std::string("its agent ended without a word");
    health.problems.push_back(health.facts ? "lost: " + words : with_remedy(health.host, words));
    if (schedule_) {
        for (std::size_t pair = 0; pair < pair_is_open_.size(); ++pair) {
            const auto& [a, b] = schedule_->pair(pair);
            if (pair_is_open_[pair] && (link_hosts_[a] == host || link_hosts_[b] == host)) {
                end_pair(pair, health.host + " was lost");
            }
        }
        begin_pairs();
    }
    answered(host);
}

void Examination::on(std::size_t host, const wire::Hello& hello) {
    if (hello.version != wire::kProtocolVersion || hello.build_id != build_id_) {
        agents_.refuse(host, {Errc::mismatch, "the agent is of build '" + hello.build_id +
                                                  "', horovodrun of build '" + build_id_ +
                                                  "'; install both from one build"});
    }
}

void Examination::on(std::size_t host, const wire::Facts& facts) {
    auto& health = diagnosis_.hosts[host];
    health.facts = facts.facts;
    health.seconds_to_link = std::chrono::duration<double>(io_.now() - began_at_).count();
    if (!facts.facts.gpu_note.empty()) {
        health.warnings.push_back(facts.facts.gpu_note);
    }
    answered(host);
}

void Examination::on(std::size_t host, wire::Note& note) {
    diagnosis_.hosts[host].warnings.push_back(std::move(note.text));
}

// ---- questions ----

std::vector<std::size_t> Examination::find_machines() {
    std::vector<std::string> marks(patients_.size());  // of the hosts before
    for (const auto host : reached()) {
        agents_.send(
            host, wire::Seek{
                      .marks = {marks.begin(), marks.begin() + static_cast<std::ptrdiff_t>(host)}});
        marks[host] = diagnosis_.hosts[host].facts->mark;
        patients_[host].is_awaited = true;
    }
    wait(kAnswerLimit);
    std::vector<std::size_t> machines;
    for (std::size_t host = 0; host < patients_.size(); ++host) {
        if (patients_[host].is_awaited && stop_signal_ == 0) {
            give_up(host, "its agent does not answer within 10 s");
        }
        const auto twin = std::ranges::find_first_of(marks, patients_[host].found);
        const auto first = std::min(static_cast<std::size_t>(twin - marks.begin()), host);
        machines.push_back(first);
        if (first != host) {
            diagnosis_.hosts[host].same_as = diagnosis_.hosts[first].host;
        }
    }
    return machines;
}

void Examination::on(std::size_t host, wire::Found& found) {
    std::erase(found.marks, std::string());
    patients_[host].found = std::move(found.marks);
    answered(host);
}

void Examination::check(const LaunchPlan& plan, const std::vector<std::size_t>& hosts) {
    for (std::size_t index = 0; index < hosts.size(); ++index) {
        auto& patient = patients_[hosts[index]];
        patient.is_awaited = true;
        patient.asked_wall_ns = wall_clock_ns();
        agents_.send(
            hosts[index],
            wire::Check{
                .job = plan.job, .plan = plan.hosts[index], .np = plan.np, .is_examination = true});
    }
    wait(kAnswerLimit);
    for (const auto host : hosts) {
        if (patients_[host].is_awaited && stop_signal_ == 0) {
            give_up(host, "its agent does not answer within 10 s; a file system may hang there");
        }
    }
}

void Examination::on(std::size_t host, wire::Checked& checked) {
    auto& health = diagnosis_.hosts[host];
    for (auto& problem : checked.problems) {
        health.problems.push_back(std::move(problem.text));
    }
    if (!agents_.is_on_this_machine(host)) {
        health.clock = read_clock(patients_[host].asked_wall_ns, checked.wall_ns, wall_clock_ns());
        if (auto warning = warn_of_clock(*health.clock); !warning.empty()) {
            health.warnings.push_back(std::move(warning));
        }
    }
    answered(host);
}

}  // namespace hvd::launch
