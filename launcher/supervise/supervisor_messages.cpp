// SPDX-License-Identifier: Apache-2.0
//
// What the supervisor does with each message of an agent.
#include "launcher/supervise/supervisor.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace hvd::launch {
namespace {

/// The first few of the hosts that a report lists, and how many there are besides.
std::string in_short(const std::string& ways) {
    constexpr std::string_view kBetween = ",;";  // those by one address, and by another
    constexpr int kMostHosts = 4;
    std::size_t end = 0;
    int hosts = 1;
    for (auto at = ways.find_first_of(kBetween); at != std::string::npos;
         at = ways.find_first_of(kBetween, at + 1), ++hosts) {
        end = hosts == kMostHosts ? at : end;
    }
    const bool is_cut = ways.ends_with("...");
    return hosts <= kMostHosts
               ? ways
               : ways.substr(0, end) + " and " +
                     (is_cut ? "many" : std::to_string(hosts - kMostHosts)) + " more (--verbose)";
}

std::chrono::steady_clock::time_point as_time(std::int64_t steady_ns) {
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(steady_ns));
}

std::string name_of(int rank, const LaunchPlan& plan) {
    const std::string program = plan.mode == "jsrun" ? "jsrun" : "mpirun";
    return rank == kLauncherRank ? program : "rank " + std::to_string(rank);
}

}  // namespace

void Supervisor::on_message(std::size_t host, wire::FromAgent message) {
    const bool is_first_talk = std::holds_alternative<wire::Hello>(message) ||
                               std::holds_alternative<wire::Facts>(message) ||
                               std::holds_alternative<wire::Found>(message) ||
                               std::holds_alternative<wire::PortPicked>(message) ||
                               std::holds_alternative<wire::Checked>(message);
    const bool is_any_time =
        std::holds_alternative<wire::Note>(message) || std::holds_alternative<wire::Pong>(message);
    if (phase_ == Phase::over || (is_first_talk != (phase_ == Phase::linking) && !is_any_time)) {
        return;  // it was dismissed, or repeats itself
    }
    std::visit([&](auto& event) { on(host, event); }, message);
}

void Supervisor::on_agent_end(std::size_t host) {
    pulse_->remove(host);
    const auto& error = agents_.end_of(host);
    const auto why = error ? error->message : std::string("it ended without a word");
    switch (phase_) {
        case Phase::linking:
            fail_host(host, why,
                      {Errc::unavailable,
                       "the agent on host " + agents_.host(host) + " did not report: " + why});
            return;
        case Phase::running:
            if (!gone_[host]) {
                sweep(host, Sweeper::kPatience);
                lose_host(host, {.host = agents_.host(host), .time_ns = now_ns(), .why = why});
            }
            return;
        case Phase::draining: continue_draining(); return;
        case Phase::over:
            if (agents_.all_ended()) {
                io_.stop();
            }
            return;
    }
}

/// Ends what is left on a host whose agent we have lost.
void Supervisor::sweep(std::size_t host, std::chrono::seconds patience) {
    if (host < plan_->hosts.size() && !plan_->hosts[host].ranks.empty()) {
        sweeper_->sweep(hosts_[host], plan_->job.id, patience);
    }
}

void Supervisor::lose_host(std::size_t host, HostLoss loss) {
    gone_[host] = true;
    tell_ranks(obituary_.on_host_lost(plan_->hosts[host], machine_->record(), loss.why));
    perform(machine_->on_host_lost(std::move(loss)));
    finish_if_all_gone();
}

/// Before they are asked to stop: what they wait for fails with the reason.
void Supervisor::tell_ranks(const std::optional<wire::PeerLost>& lost) {
    if (lost) {
        agents_.send_all(*lost);
    }
}

bool Supervisor::knows(std::size_t host, int rank) {
    if (machine_->knows(rank)) {
        return true;
    }
    agents_.refuse(host, {Errc::internal, "it spoke of rank " + std::to_string(rank) +
                                              ", which is not in the plan"});
    return false;
}

void Supervisor::on(std::size_t host, wire::Started event) {
    if (!knows(host, event.rank)) {
        return;
    }
    event.time_ns = on_our_clock(host, event.time_ns);
    if (options_.verbose) {
        output_->say(name_of(event.rank, *plan_) + " started on " + agents_.host(host) + ", pid " +
                     std::to_string(event.pid));
    }
    if (options_.trace != nullptr && options_.on_all_started) {
        options_.trace->started(host, event.rank, as_time(event.time_ns));
    }
    perform(machine_->on_started(event));
    if (machine_->state() != JobState::starting) {
        start_timer_.cancel();
        end_trace();
    }
}

void Supervisor::on(std::size_t host, wire::StartFailed event) {
    event.time_ns = on_our_clock(host, event.time_ns);
    if (knows(host, event.rank)) {
        perform(machine_->on_start_failed(event));
    }
}

void Supervisor::on(std::size_t host, wire::Output& event) {
    if (!knows(host, event.rank)) {
        return;
    }
    const int place = event.rank == kLauncherRank ? plan_->np : event.rank;
    Chunk chunk{.stream = event.stream == wire::Stream::out ? OutputStream::out : OutputStream::err,
                .rank = place,
                .time_ns = event.time_ns,
                .bytes = std::move(event.bytes)};
    if (chunk.stream == OutputStream::err) {
        tails_[static_cast<std::size_t>(place)].add(chunk.text());
    }
    output_->submit(host, std::move(chunk));
}

void Supervisor::on(std::size_t host, wire::RankReport event) {
    event.time_ns = on_our_clock(host, event.time_ns);
    if (!knows(host, event.rank)) {
        return;
    }
    if (event.report.kind == coll::ReportKind::connected) {
        // Worlds that begin anew mostly take the same addresses. Those of the first host show how
        // all go, and others can be many.
        const bool is_wanted = options_.verbose || event.rank == 0;
        if (is_wanted && told_ways_.insert(event.report.text).second) {
            output_->say("data goes over tcp from " +
                         (options_.verbose ? event.report.text : in_short(event.report.text)));
        }
        return;
    }
    if (event.report.kind == coll::ReportKind::versions) {
        for (const auto& sentence : versions_->add(host, event.report.text)) {
            output_->say(sentence);
        }
        return;
    }
    obituary_.on_report(event);
    if (machine_->on_report(event) == JobAction::watch_exit) {
        watch_exit(event.rank);
    }
}

void Supervisor::on(std::size_t host, wire::Exited event) {
    if (!knows(host, event.rank)) {
        return;
    }
    event.time_ns = on_our_clock(host, event.time_ns);
    output_->rank_ended(event.rank == kLauncherRank ? plan_->np : event.rank);
    if (options_.verbose) {
        output_->say(name_of(event.rank, *plan_) + " ended");
    }
    const auto action = machine_->on_exited(event);
    if (event.rank != kLauncherRank) {  // no rank waits for mpirun
        const auto index = static_cast<std::size_t>(event.rank);
        tell_ranks(obituary_.on_exited(machine_->record().ranks[index]));
    }
    perform(action);
}

void Supervisor::on(std::size_t host, wire::Put& event) {
    tell_ranks(obituary_.on_put(event.rank, event.key));
    const auto value = event.value;
    auto stored = keys_.put(event.key, std::move(event.value));
    agents_.send(
        host, wire::PutDone{
                  .rank = event.rank, .request = event.request, .error = std::move(stored.error)});
    for (const auto& asker : stored.now_served) {
        agents_.send(asker.host,
                     wire::GetValue{.rank = asker.rank, .request = asker.request, .value = value});
    }
}

void Supervisor::on(std::size_t host, const wire::Get& event) {
    tell_ranks(obituary_.on_get(event.rank, event.key));
    const auto* value =
        keys_.get(event.key, {.host = host, .rank = event.rank, .request = event.request});
    if (value != nullptr) {
        agents_.send(host,
                     wire::GetValue{.rank = event.rank, .request = event.request, .value = *value});
    }
}

void Supervisor::on(std::size_t host, const wire::Note& event) {
    const auto text = "horovodrun: host " + agents_.host(host) + ": " + event.text + "\n";
    if (output_) {
        output_->say_as_is(text);
    } else {
        notes_ += text;
    }
}

void Supervisor::on(std::size_t host, const wire::StepSignal& event) {
    machine_->on_step_signal(event.signal);
    on(host, wire::Note{.text = "Slurm sent " + signal_name(event.signal) +
                                " to all processes of the step"});
}

void Supervisor::on(std::size_t host, const wire::AllGone& event) {
    pulse_->remove(host);
    if (agents_.wants_job_end(host)) {
        // It stays until the job has ended, and is not asked any more whether it lives.
        agents_.send(host, wire::Ping{.asked_ns = 0, .lease_ms = 0});
    }
    for (const auto& survivor : event.survivors) {
        survivors_.push_back({.host = agents_.host(host), .process = survivor});
    }
    if (!gone_[host] && machine_->has_ended_unasked(plan_->hosts[host])) {
        lose_host(host,
                  {.host = agents_.host(host),
                   .time_ns = now_ns(),
                   .why = "its agent ended the ranks there, which nobody here had asked for"});
        return;
    }
    gone_[host] = true;
    finish_if_all_gone();
}

void Supervisor::on(std::size_t host, const wire::InputTaken& event) {
    if (input_) {
        input_->taken(host, event.bytes);
    }
}

}  // namespace hvd::launch
