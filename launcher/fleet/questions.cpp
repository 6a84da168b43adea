// SPDX-License-Identifier: Apache-2.0
#include "launcher/fleet/questions.hpp"

#include "collectives/base/wall_clock.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

namespace hvd::launch {

Machines find_machines(AgentFleet& fleet,
                       std::span<const std::optional<HostFacts>> facts,
                       const AgentFleet::Timeout& timeout) {
    std::vector<Frame> questions;
    std::vector<std::string> marks;  // of the hosts before; empty for those without facts
    for (const auto& known : facts) {
        questions.push_back(known ? wire::encode(wire::Seek{.marks = marks}) : Frame());
        marks.push_back(known ? known->mark : "");
    }
    auto answers = fleet.ask<wire::Found>(std::move(questions), timeout);
    Machines machines;
    for (std::size_t host = 0; host < answers.size(); ++host) {
        auto& answer = answers[host];
        machines.has_answered.push_back(answer.has_value());
        std::size_t first = host;
        if (answer) {
            std::erase(answer->marks, std::string());
            const auto twin = std::ranges::find_first_of(marks, answer->marks);
            first = std::min(static_cast<std::size_t>(twin - marks.begin()), host);
        }
        machines.first.push_back(first);
    }
    return machines;
}

std::vector<std::optional<CheckedHost>> check_hosts(AgentFleet& fleet,
                                                    std::vector<Frame> checks,
                                                    const AgentFleet::Timeout& timeout) {
    std::vector<std::optional<CheckedHost>> answers(checks.size());
    const auto sent_ns = wall_clock_ns();
    fleet.ask(
        [&](std::size_t host, wire::FromAgent& message) {
            auto* checked = std::get_if<wire::Checked>(&message);
            if (checked == nullptr) {
                return false;
            }
            auto& answer = answers[host].emplace();
            answer.problems = std::move(checked->problems);
            answer.nccl = std::move(checked->nccl);
            if (!fleet.is_on_this_machine(host)) {
                answer.clock = read_clock(sent_ns, checked->wall_ns, wall_clock_ns());
            }
            return true;
        },
        std::move(checks), timeout);
    return answers;
}

}  // namespace hvd::launch
