// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/rank_streams.hpp"

#include <utility>

namespace hvd::launch {

RankStreams::RankStreams(AgentFleet& fleet, const LaunchPlan& plan, std::size_t error_lines)
    : fleet_(fleet),
      plan_(plan),
      tails_(static_cast<std::size_t>(plan.np) + 1, StderrTail(error_lines)) {}

Result<std::unique_ptr<RankStreams>> RankStreams::open(IoThread& io,
                                                       AgentFleet& fleet,
                                                       const LaunchPlan& plan,
                                                       const LaunchRequest& request,
                                                       const JobContext& context,
                                                       OutputFlow::Events events) {
    std::unique_ptr<RankStreams> streams(
        new RankStreams(fleet, plan, static_cast<std::size_t>(request.report.error_lines)));
    OutputPlaces places{.ranks = plan.np, .log = context.log, .console = context.console};
    places.places.resize(static_cast<std::size_t>(plan.np));
    for (const auto& host : plan.hosts) {
        if (host.stdin_rank != -1) {
            auto& rank = host.has_terminal ? places.terminal_rank : places.input_rank;
            rank = streams->place_of(host.stdin_rank);
        }
        for (const auto& rank : host.ranks) {
            places.places[static_cast<std::size_t>(rank.rank)] = {.host = host.host,
                                                                  .local_rank = rank.local_rank};
        }
    }
    HVD_TRY(streams->output_,
            OutputFlow::create(io, fleet, request.output, places, std::move(events)));
    for (std::size_t host = 0; host < plan.hosts.size(); ++host) {
        if (plan.hosts[host].has_terminal) {
            HVD_TRY(streams->terminal_,
                    LentTerminal::lend(io, fleet, host, plan.hosts[host].stdin_rank));
        }
    }
    return streams;
}

int RankStreams::place_of(int rank) const {
    return rank == kLauncherRank ? plan_.np : rank;
}

void RankStreams::start_input(IoThread& io) {
    std::vector<std::size_t> readers;
    for (std::size_t host = 0; host < plan_.hosts.size(); ++host) {
        const auto& host_plan = plan_.hosts[host];
        const bool has_reader = host_plan.stdin_rank != -1;  // a rank, or kLauncherRank
        if (host_plan.stdin_all || (has_reader && !host_plan.has_terminal)) {
            readers.push_back(host);
        }
    }
    if (!readers.empty()) {
        input_.emplace(io, fleet_, readers);
    }
}

void RankStreams::on(std::size_t host, wire::Output& event) {
    Chunk chunk{.stream = event.stream == OutputStream::out ? OutputStream::out : OutputStream::err,
                .rank = place_of(event.rank),
                .time_ns = event.time_ns,
                .bytes = std::move(event.bytes)};
    if (chunk.stream == OutputStream::err || is_of_terminal(event.rank)) {
        tails_[static_cast<std::size_t>(chunk.rank)].add(chunk.text());
    }
    output_->submit(host, std::move(chunk));
}

void RankStreams::on(std::size_t host, const wire::InputTaken& event) {
    if (input_) {
        input_->taken(host, event.bytes);
    }
    if (terminal_) {
        terminal_->taken(host, event.bytes);
    }
}

void RankStreams::on_started(int rank) {
    if (is_of_terminal(rank)) {
        terminal_->begin();
    }
}

void RankStreams::on_exited(int rank) {
    if (is_of_terminal(rank)) {
        terminal_->end();
    }
    output_->rank_ended(place_of(rank));
}

void RankStreams::on_host_lost(std::size_t host) {
    if (terminal_ && terminal_->host() == host) {
        terminal_->end();
    }
}

void RankStreams::on_signal(int signal) {
    if (terminal_) {
        terminal_->on_signal(signal);
    }
}

void RankStreams::end() {
    input_.reset();
    if (terminal_) {
        terminal_->end();
    }
    output_->all_ended();
}

void RankStreams::restore_terminal() {
    if (terminal_) {
        terminal_->restore();
    }
}

}  // namespace hvd::launch
