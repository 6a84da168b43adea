// SPDX-License-Identifier: Apache-2.0
//
// What the supervisor asks the agents between their first words and the start of the ranks.
#include "collectives/base/wall_clock.hpp"
#include "launcher/supervise/supervisor.hpp"
#include "launcher/supervise/wall_clock.hpp"

#include <algorithm>
#include <utility>

namespace hvd::launch {

Result<std::vector<std::size_t>> Supervisor::find_machines() {
    if (options_.trace != nullptr) {
        options_.trace->enter("which hosts are one machine", io_.now());
    }
    found_.assign(agents_.size(), {});
    is_awaited_.assign(agents_.size(), true);
    std::vector<std::string> marks;  // of the hosts before
    for (std::size_t host = 0; host < agents_.size(); ++host) {
        agents_.send(host, wire::Seek{.marks = marks});
        marks.push_back(facts_[host]->mark);
    }
    wait_for_agents();
    if (link_error_) {
        return *std::move(link_error_);
    }
    std::vector<std::size_t> machines;
    for (std::size_t host = 0; host < found_.size(); ++host) {
        const auto twin = std::ranges::find_first_of(marks, found_[host]);
        const auto first = static_cast<std::size_t>(twin - marks.begin());
        machines.push_back(std::min(first, host));
    }
    return machines;
}

Result<int> Supervisor::pick_port(const PortSpan& ports) {
    if (options_.trace != nullptr) {
        options_.trace->enter("port", io_.now());
    }
    is_awaited_.assign(agents_.size(), false);
    is_awaited_.front() = true;
    agents_.send(0, wire::PickPort{.first = ports.first, .last = ports.last});
    wait_for_agents();
    if (link_error_) {
        return *std::move(link_error_);
    }
    if (picked_port_.port == 0) {
        return Error{Errc::invalid_argument, "no port from " + std::to_string(ports.first) +
                                                 " to " + std::to_string(ports.last) +
                                                 " is free on " + agents_.host(0) +
                                                 " for MASTER_PORT" + picked_port_.taken +
                                                 "; give --port-range (HOROVOD_PORT_RANGE) more"};
    }
    return picked_port_.port;
}

Result<std::vector<HostProblem>> Supervisor::check(const LaunchPlan& plan) {
    if (options_.trace != nullptr) {
        options_.trace->enter("preflight", io_.now());
    }
    HVD_TRY(auto checks, encode_checks(plan));
    check_sent_ns_ = wall_clock_ns();
    problems_.assign(plan.hosts.size(), {});
    is_awaited_.assign(plan.hosts.size(), true);
    for (std::size_t host = 0; host < plan.hosts.size(); ++host) {
        agents_.send_frame(host, std::move(checks[host]));
    }
    wait_for_agents();
    if (link_error_) {
        return *std::move(link_error_);
    }
    std::vector<HostProblem> found;
    for (std::size_t host = 0; host < problems_.size(); ++host) {
        for (auto& problem : problems_[host]) {
            found.push_back({.host = agents_.host(host), .problem = std::move(problem)});
        }
    }
    return found;
}

/// False for an answer to no question. The last one ends the wait.
bool Supervisor::take_answer(std::size_t host) {
    if (host >= is_awaited_.size() || !is_awaited_[host]) {
        return false;
    }
    is_awaited_[host] = false;
    if (options_.trace != nullptr) {
        options_.trace->done(host, io_.now());
    }
    stop_if_settled();
    return true;
}

void Supervisor::on(std::size_t host, wire::Checked& checked) {
    if (!take_answer(host) || host >= problems_.size()) {
        return;
    }
    problems_[host] = std::move(checked.problems);
    if (!agents_.is_on_this_machine(host)) {
        const auto clock = read_clock(check_sent_ns_, checked.wall_ns, wall_clock_ns());
        if (auto warning = warn_of_clock(clock); !warning.empty()) {
            on(host, wire::Note{.text = std::move(warning)});
        }
    }
}

void Supervisor::on(std::size_t host, wire::PortPicked& picked) {
    if (take_answer(host)) {
        picked_port_ = std::move(picked);
    }
}

void Supervisor::on(std::size_t host, wire::Found& found) {
    if (take_answer(host)) {
        found_[host] = std::move(found.marks);
    }
}

}  // namespace hvd::launch
