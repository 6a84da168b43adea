// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/job_result.hpp"

#include "collectives/base/text.hpp"
#include "launcher/supervise/time_words.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

namespace hvd::launch {
namespace {

constexpr std::string_view kPrefix = "horovodrun: ";

void add_line(std::string& text, std::string_view line) {
    text += kPrefix;
    text += line;
    text += '\n';
}

void add_ranks(std::string& text,
               std::string_view what,
               const std::vector<RankResult>& ranks,
               const std::function<bool(const RankResult&)>& is_wanted) {
    std::vector<int> numbers;
    for (const auto& rank : ranks) {
        if (is_wanted(rank)) {
            numbers.push_back(rank.rank);
        }
    }
    if (!numbers.empty()) {
        add_line(text, std::string(what) + ": ranks " + format_ranges(numbers));
    }
}

std::string describe_lead(const Culprit& culprit) {
    return culprit.lead_seconds ? ", first of " + std::to_string(culprit.failed_ranks) + ", " +
                                      describe_time(*culprit.lead_seconds) + " before the next"
                                : "";
}

/// The lead stands before the explanation where that ends with the kernel's own words.
std::string describe_what(const Culprit& culprit, Reason reason) {
    auto what = culprit.what;
    const auto colon = reason == Reason::oom ? what.find(": ") : std::string::npos;
    return what.insert(std::min(colon, what.size()), describe_lead(culprit));
}

void add_culprit(std::string& text, const Culprit& culprit, Reason reason) {
    const auto& rank = culprit.rank;
    const auto pid = rank.pid != 0 ? ", pid " + std::to_string(rank.pid) : "";
    add_line(text, "culprit: rank " + std::to_string(rank.rank) + " (host " + rank.host +
                       ", local rank " + std::to_string(rank.local_rank) + pid +
                       "): " + describe_what(culprit, reason));
    bool is_message_shown = culprit.message.empty();
    for (const auto& line : culprit.stderr_tail) {
        add_line(text, "| " + line);
        is_message_shown = is_message_shown || line.find(culprit.message) != std::string::npos;
    }
    if (!is_message_shown) {
        add_line(text, "it reported: " + culprit.message);
    }
    if (const auto& same = culprit.same_ranks; !same.empty()) {
        add_line(text, "the same on ranks " + format_ranges(same));
    }
    for (const auto& note : culprit.same_notes) {
        add_line(text, note);
    }
}

std::string describe_end(const RankResult& process) {
    if (process.signal) {
        return "signal " + signal_name(*process.signal);
    }
    return process.exit_code ? "exit " + std::to_string(*process.exit_code) : "no status";
}

void add_launcher(std::string& text, const JobResult& result, Values values) {
    const auto& [line, hidden_line, process] = *result.launcher;
    add_line(text, "started by: " + (values == Values::hidden ? hidden_line : line));
    add_line(text, "it ended with " + describe_end(process) + " (pid " +
                       std::to_string(process.pid) + ")");
    const auto has_come = [](const RankResult& rank) { return rank.pid != 0; };
    if (std::ranges::none_of(result.ranks, has_come)) {
        add_line(text, "no rank has come from it");
    } else {
        add_ranks(text, "came from it", result.ranks, has_come);
    }
}

}  // namespace

std::string_view to_string(Reason reason) noexcept {
    switch (reason) {
        case Reason::none: return "none";
        case Reason::exit: return "exit";
        case Reason::signal: return "signal";
        case Reason::oom: return "oom";
        case Reason::exec: return "exec";
        case Reason::host_lost: return "host_lost";
        case Reason::start: return "start";
        case Reason::timeout: return "timeout";
        case Reason::left_early: return "left_early";
        case Reason::stalled: return "stalled";
        case Reason::interrupted: return "interrupted";
    }
    return "?";
}

std::string_view to_string(RankClass value) noexcept {
    switch (value) {
        case RankClass::ok: return "ok";
        case RankClass::culprit: return "culprit";
        case RankClass::same: return "same";
        case RankClass::also_failed: return "also_failed";
        case RankClass::stopped: return "stopped";
        case RankClass::lost_peer: return "lost_peer";
        case RankClass::lost_host: return "lost_host";
    }
    return "?";
}

std::string format_last_words(const JobResult& result, Values values) {
    std::string text;
    if (!result.sentence.empty()) {
        add_line(text, result.sentence);
    }
    if (result.culprit) {
        add_culprit(text, *result.culprit, result.reason);
    }
    if (!result.is_success()) {
        const auto add_class = [&](std::string_view words, RankClass wanted) {
            add_ranks(text, words, result.ranks,
                      [wanted](const RankResult& rank) { return rank.rank_class == wanted; });
        };
        add_class("also failed", RankClass::also_failed);
        add_class("stopped", RankClass::stopped);
        add_class("lost a peer", RankClass::lost_peer);
        add_class("lost with their host", RankClass::lost_host);
        if (result.launcher) {
            add_launcher(text, result, values);
        }
    }
    for (const auto& [host, process] : result.survivors) {
        add_line(text, "process " + std::to_string(process.pid) + " on host " + host +
                           " could not be killed (state " + process.state + ", waiting in " +
                           process.wchan + ")");
    }
    for (const auto& [host, why] : result.unswept) {
        auto line =
            "processes may remain on host " + host + ", which could not be searched for them: ";
        line += why;
        add_line(text, line);
    }
    return text;
}

}  // namespace hvd::launch
