// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/launch_trace.hpp"

#include "launcher/model/launch_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <utility>

#include <nlohmann/json.hpp>

namespace hvd::launch {
namespace {

using Json = nlohmann::ordered_json;
using TimePoint = LaunchTrace::TimePoint;

constexpr int kJobTrack = 0;  // "process" of the job itself; hosts follow
constexpr int kStepsThread = 1;
constexpr int kCriticalThread = 2;
constexpr int kWayThread = 1;  // of a host
constexpr int kFirstRankThread = 2;

std::int64_t microseconds(TimePoint::duration span) {
    return std::chrono::duration_cast<std::chrono::microseconds>(span).count();
}

std::string in_words(TimePoint::duration span) {
    const auto seconds = std::chrono::duration<double>(span).count();
    std::array<char, 32> text{};
    (void)std::snprintf(text.data(), text.size(), seconds < 1 ? "%.1f ms" : "%.3f s",
                        seconds < 1 ? seconds * 1e3 : seconds);
    return text.data();
}

std::string name_of(int rank) {
    return rank == kLauncherRank ? "mpirun" : "rank " + std::to_string(rank);
}

Json name_of(const char* what, int process, int thread, const std::string& name) {
    return {
        {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

void LaunchTrace::add_hosts(const std::vector<std::string>& names) {
    for (const auto& name : names) {
        hosts_.push_back({.name = name});
    }
}

void LaunchTrace::enter(std::string step, TimePoint now) {
    if (!steps_.empty()) {
        steps_.back().span.end = now;
    }
    steps_.push_back({.span = {.name = std::move(step), .begin = now}});
}

void LaunchTrace::enter(std::string_view host, std::string step, TimePoint now) {
    const auto track = std::ranges::find(hosts_, host, &Track::name);
    if (track == hosts_.end()) {
        return;
    }
    auto& way = track->way;
    if (!way.empty() && !way.back().end) {
        way.back().end = now;
    }
    way.push_back({.name = std::move(step), .begin = now});
}

void LaunchTrace::done(std::size_t host, TimePoint now) {
    take_part(host, std::nullopt, now);
    auto& track = hosts_.at(host);
    if (!track.way.empty() && !track.way.back().end) {
        track.way.back().end = now;
        return;
    }
    track.parts.push_back(
        {.name = steps_.back().span.name, .begin = steps_.back().span.begin, .end = now});
}

void LaunchTrace::started(std::size_t host, int rank, TimePoint at) {
    take_part(host, rank, at);
    hosts_.at(host).ranks.push_back(
        {.rank = rank,
         .span = {
             .name = name_of(rank), .begin = std::min(at, steps_.back().span.begin), .end = at}});
}

/// The last of all is to blame for the length of the step.
void LaunchTrace::take_part(std::size_t host, std::optional<int> rank, TimePoint at) {
    auto& step = steps_.back();
    if (!step.last_host || at > step.last_at) {
        step.last_host = host;
        step.last_rank = rank;
        step.last_at = at;
    }
}

void LaunchTrace::finish(TimePoint now) {
    if (finished_) {
        return;
    }
    finished_ = now;
    if (!steps_.empty()) {
        steps_.back().span.end = now;
    }
}

TimePoint LaunchTrace::end_of(const Span& span) const {
    return span.end.value_or(finished_.value_or(span.begin));
}

/// One behind the other: the steps of the job, and in the place of the first one, which is the way
/// to the agents, the way to the agent that was there last.
std::vector<LaunchTrace::Span> LaunchTrace::critical_spans() const {
    std::vector<Span> spans;
    for (const auto& step : steps_) {
        const auto* track = step.last_host ? &hosts_.at(*step.last_host) : nullptr;
        if (&step == &steps_.front() && track != nullptr && !track->way.empty()) {
            for (const auto& way : track->way) {
                spans.push_back(
                    {.name = track->name + ": " + way.name, .begin = way.begin, .end = way.end});
            }
            continue;
        }
        auto name = step.span.name;
        if (step.last_rank) {
            name += " (last " + name_of(*step.last_rank) + ", on " + track->name + ")";
        } else if (track != nullptr && hosts_.size() > 1) {
            name += " (last " + track->name + ")";
        }
        spans.push_back({.name = std::move(name), .begin = step.span.begin, .end = step.span.end});
    }
    return spans;
}

std::string LaunchTrace::critical_path() const {
    if (!finished_) {
        return "";
    }
    std::string text = "the start took " + in_words(*finished_ - began_) + ":";
    const char* separator = " ";
    for (const auto& span : critical_spans()) {
        text += separator + span.name + " " + in_words(end_of(span) - span.begin);
        separator = ", ";
    }
    return text;
}

std::string LaunchTrace::to_json() const {
    auto events = Json::array();
    const auto add = [&](int process, int thread, const Span& span) {
        events.push_back({{"ph", "X"},
                          {"name", span.name},
                          {"pid", process},
                          {"tid", thread},
                          {"ts", microseconds(span.begin - began_)},
                          {"dur", microseconds(end_of(span) - span.begin)}});
    };
    events.push_back(name_of("process_name", kJobTrack, 0, "horovodrun"));
    events.push_back(name_of("thread_name", kJobTrack, kStepsThread, "steps"));
    events.push_back(name_of("thread_name", kJobTrack, kCriticalThread, "critical path"));
    for (const auto& step : steps_) {
        add(kJobTrack, kStepsThread, step.span);
    }
    for (const auto& span : critical_spans()) {
        add(kJobTrack, kCriticalThread, span);
    }
    int process = kJobTrack;
    for (const auto& host : hosts_) {
        ++process;
        events.push_back(name_of("process_name", process, 0, host.name));
        events.push_back(name_of("thread_name", process, kWayThread, "start-up"));
        for (const auto* spans : {&host.way, &host.parts}) {
            for (const auto& span : *spans) {
                add(process, kWayThread, span);
            }
        }
        int thread = kFirstRankThread;
        for (const auto& [rank, span] : host.ranks) {
            events.push_back(name_of("thread_name", process, thread, name_of(rank)));
            add(process, thread++, span);
        }
    }
    const Json document{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
    return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hvd::launch
