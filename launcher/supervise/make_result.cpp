// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/make_result.hpp"

#include "collectives/base/text.hpp"
#include "launcher/model/exit_code.hpp"
#include "launcher/plan/print.hpp"
#include "launcher/supervise/late_rank.hpp"
#include "launcher/supervise/verdict.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include <sys/wait.h>

namespace hvd::launch {
namespace {

constexpr double kNanosecond = 1e-9;

/// Of ranks that were late as the culprit was, and each may have done something else.
constexpr std::size_t kMostNotes = 8;

RankResult rank_result(const RankRecord& rank, RankClass rank_class) {
    RankResult result{.rank = rank.rank,
                      .host = rank.host,
                      .local_rank = rank.local_rank,
                      .pid = rank.started ? rank.started->pid : 0,
                      .exit_code = {},
                      .signal = {},
                      .rank_class = rank_class};
    if (!rank.exited || !rank.started) {
        return result;
    }
    const int status = rank.exited->wait_status;
    if (rank.exited->is_unseen) {
        // Only mpirun was told.
    } else if (WIFEXITED(status)) {
        result.exit_code = WEXITSTATUS(status);
    } else {
        result.signal = WTERMSIG(status);
    }
    const auto lived_ns = std::max<std::int64_t>(0, rank.exited->time_ns - rank.started->time_ns);
    result.seconds = static_cast<double>(lived_ns) * kNanosecond;
    result.max_rss_bytes = rank.exited->max_rss_bytes;
    return result;
}

/// The last line of a traceback is the sentence in it.
std::string last_line(std::string_view text) {
    text = trim(text);
    const auto line = text.rfind('\n');
    return std::string(trim(line == std::string_view::npos ? text : text.substr(line + 1)));
}

bool has_failed(RankClass value) {
    return value == RankClass::culprit || value == RankClass::same ||
           value == RankClass::also_failed;
}

Culprit make_culprit(const Seen& seen, const Verdict& verdict) {
    const auto index = static_cast<std::size_t>(*verdict.culprit);
    const auto& rank = seen.record.ranks[index];
    Culprit culprit{.rank = rank_result(rank, RankClass::culprit),
                    .what = describe_failure(rank, verdict),
                    .message = {},
                    .stderr_tail = seen.tails[index].lines()};
    culprit.failed_ranks = static_cast<int>(std::ranges::count_if(verdict.classes, has_failed));
    if (const auto lead = find_lead(seen.record, verdict)) {
        culprit.lead_seconds = static_cast<double>(*lead) * kNanosecond;
    }
    if (rank.exception) {
        culprit.message = last_line(rank.exception->report.text);
    } else if (rank.peer_lost) {
        culprit.message = last_line(rank.peer_lost->report.text);
    }
    return culprit;
}

using Lines = std::span<const std::string>;

bool begins_traceback(std::string_view line) {
    return line.starts_with("Traceback (most");
}

/// Whether these lines end with what Python says between the exceptions of a chain.
bool ends_in_chain(Lines lines) {
    while (!lines.empty() && trim(lines.back()).empty()) {
        lines = lines.first(lines.size() - 1);
    }
    return !lines.empty() &&
           (lines.back().starts_with("The above exception was the direct cause of") ||
            lines.back().starts_with("During handling of the above exception, another"));
}

/// From the first traceback of the last chain on: what a rank said before it failed is its own.
/// Without one, the last lines; none, where the beginning of the chain is not there to be compared.
Lines last_failure(Lines lines) {
    auto before = lines;
    do {
        const auto after = std::find_if(before.rbegin(), before.rend(), [](const auto& line) {
                               return begins_traceback(line);
                           }).base();
        if (after == before.begin()) {
            const bool has_chain = before.size() != lines.size();
            return has_chain ? Lines() : lines.last(std::min(lines.size(), StderrTail::kMaxLines));
        }
        before = Lines(before.begin(), after - 1);
    } while (ends_in_chain(before));
    return lines.subspan(before.size());
}

/// Without the addresses of objects, which differ from process to process.
std::string without_addresses(std::string_view text) {
    constexpr std::string_view kHexDigits = "0123456789abcdef";
    constexpr std::string_view kBegin = " at 0x";
    std::string rest;
    for (auto at = text.find(kBegin); at != std::string_view::npos; at = text.find(kBegin)) {
        rest += text.substr(0, at);
        text.remove_prefix(
            std::min(text.size(), text.find_first_not_of(kHexDigits, at + kBegin.size())));
    }
    return rest.append(text);
}

/// The others that failed as the culprit did: that reported the same exception, or else ended as it
/// did with the same last lines. What ranks write that our own TERM ended is mostly of no failure.
std::vector<int> find_same(const Seen& seen,
                           const std::vector<RankResult>& ranks,
                           int first,
                           Reason reason) {
    const bool is_stalled = reason == Reason::stalled;
    const auto index = static_cast<std::size_t>(first);
    const auto all_words = seen.tails[index].words();
    const auto words = last_failure(all_words);
    const auto& culprit = ranks[index];
    const auto& report = seen.record.ranks[index].exception;
    std::vector<int> same;
    for (std::size_t other = 0; other < ranks.size(); ++other) {
        const auto& rank = ranks[other];
        if (other == index || rank.rank_class == RankClass::ok) {
            continue;
        }
        const auto& missed = seen.record.ranks[other].missed;
        if (is_stalled) {  // all that are missing are in the same report
            if (missed && missed->report.text == seen.record.ranks[index].missed->report.text) {
                same.push_back(rank.rank);
            }
            continue;
        }
        const auto& said = seen.record.ranks[other].exception;
        if (report && said) {
            if (without_addresses(report->report.text) == without_addresses(said->report.text)) {
                same.push_back(rank.rank);
            }
            continue;
        }
        const bool is_stopped = rank.rank_class == RankClass::stopped;
        const bool ended_alike = (rank.exit_code && rank.exit_code == culprit.exit_code) ||
                                 (!is_stopped && rank.signal && rank.signal == culprit.signal);
        const bool is_telling = !words.empty() && (!is_stopped || begins_traceback(words.front()));
        const auto said_words = seen.tails[other].words();
        if (ended_alike && is_telling && std::ranges::equal(words, last_failure(said_words))) {
            same.push_back(rank.rank);
        }
    }
    return same;
}

/// Which of the ranks that failed alike was first differs from run to run and tells nothing: the
/// lowest stands for all. Gives the others.
std::vector<int> name_lowest(Verdict& verdict, std::vector<int> same, const JobResult& result) {
    const int first = *verdict.culprit;
    const auto& first_end = result.ranks[static_cast<std::size_t>(first)];
    const auto lowest = std::ranges::find_if(same, [&](int number) {
        const auto& end = result.ranks[static_cast<std::size_t>(number)];
        return verdict.reason == Reason::exit || end.signal == first_end.signal;
    });
    if (lowest != same.end() && *lowest < first) {
        verdict.culprit = std::exchange(*lowest, first);
        std::ranges::sort(same);
    }
    for (const int number : same) {
        verdict.classes[static_cast<std::size_t>(number)] = RankClass::same;
    }
    verdict.classes[static_cast<std::size_t>(*verdict.culprit)] = RankClass::culprit;
    return same;
}

/// Where the ranks were late to hvd.init(): "rank 2 (host h3) sleeps, ...", of the first few.
std::vector<std::string> note_activities(const JobRecord& record, const std::vector<int>& ranks) {
    std::vector<std::string> notes;
    for (const int number : ranks) {
        const auto& rank = record.ranks[static_cast<std::size_t>(number)];
        if (is_late_to_init(rank) && notes.size() < kMostNotes) {
            notes.push_back("rank " + std::to_string(number) + " (host " + rank.host + ") " +
                            describe_activity(rank));
        }
    }
    return notes;
}

std::string missing_ranks(const JobRecord& record) {
    std::vector<int> missing;
    for (const auto& rank : record.ranks) {
        if (!rank.started) {
            missing.push_back(rank.rank);
        }
    }
    return format_ranges(missing);
}

std::string explain_start_limit(const JobRecord& record) {
    const auto missing = missing_ranks(record);
    return "not every rank had started within --start-timeout" +
           (missing.empty() ? "; all have since" : ": missing ranks " + missing);
}

/// "rank 0 had ended, but not within --exit-timeout after it: ranks 4-7".
std::string explain_exit_limit(const JobRecord& record) {
    const RankRecord* first = nullptr;
    std::vector<int> late;
    for (const auto& rank : record.ranks) {
        const bool is_late = !rank.exited || rank.exited->is_killed_by_launcher;
        if (is_late) {
            late.push_back(rank.rank);
        } else if (first == nullptr || rank.exited->time_ns < first->exited->time_ns) {
            first = &rank;
        }
    }
    return "rank " + (first == nullptr ? "?" : std::to_string(first->rank)) +
           " had ended, but not within --exit-timeout after it: ranks " + format_ranges(late);
}

/// The program that starts the ranks in the agents' place.
const ProcessSpec* find_launcher(const LaunchPlan& plan) {
    for (const auto& host : plan.hosts) {
        if (!host.launchers.empty()) {
            return &host.launchers.front();
        }
    }
    return nullptr;
}

std::string explain_launcher(const Seen& seen, const Verdict& verdict) {
    const auto& launcher = *seen.record.launcher;
    const auto& program = find_launcher(seen.plan)->argv.front();
    const auto missing = missing_ranks(seen.record);
    if (verdict.reason == Reason::start && !launcher.start_failed) {
        return program + " has ended without starting ranks " + missing;
    }
    return program + ": " + describe_failure(launcher, verdict) +
           (missing.empty() ? "" : ", before ranks " + missing + " had started");
}

std::string sentence_for(const Seen& seen, const JobResult& result, const Verdict& verdict) {
    const auto& cause = seen.record.cause;
    if (verdict.lost) {
        return "lost the agent on host " + verdict.lost->host + ": " + verdict.lost->why;
    }
    if (verdict.is_launcher) {
        return explain_launcher(seen, verdict);
    }
    if (verdict.step_signal != 0) {
        return "stopped by Slurm's " + signal_name(verdict.step_signal);
    }
    switch (cause.kind) {
        case Cause::Kind::interrupted:
            return result.is_success() ? "" : "stopped by " + signal_name(cause.signal);
        case Cause::Kind::time_limit: return seen.time_limit;
        case Cause::Kind::start_limit: return explain_start_limit(seen.record);
        case Cause::Kind::exit_limit: return explain_exit_limit(seen.record);
        case Cause::Kind::console_closed:
            return "standard output was closed: there is nobody to print for";
        case Cause::Kind::none:
        case Cause::Kind::host_lost:
        case Cause::Kind::rank_failed: break;
    }
    if (result.reason != Reason::host_lost) {
        return "";
    }
    const auto broken = std::ranges::find_if(
        seen.hosts, [](const HostResult& host) { return !host.error.empty(); });
    return broken == seen.hosts.end()
               ? "the ranks were ended, and nobody has said why"
               : "lost the agent on host " + broken->host + ": " + broken->error;
}

/// The reason why a job whose ranks have all succeeded is a failure.
std::string flaw_of(const JobResult& result) {
    if (!result.warnings.empty()) {
        return "some of their output was lost";
    }
    if (!result.survivors.empty()) {
        return "processes of the job are left that could not be killed";
    }
    return result.unswept.empty() ? "" : "processes of the job may be left";
}

}  // namespace

JobResult make_result(Seen seen) {
    auto verdict = judge(seen.record);
    JobResult result;
    result.job_id = seen.plan.job.id;
    result.exit_code = verdict.exit_code;
    result.reason = verdict.reason;
    result.seconds = seen.seconds;
    for (std::size_t rank = 0; rank < seen.record.ranks.size(); ++rank) {
        result.ranks.push_back(rank_result(seen.record.ranks[rank], verdict.classes[rank]));
    }
    if (verdict.culprit) {
        auto same = find_same(seen, result.ranks, *verdict.culprit, verdict.reason);
        same = name_lowest(verdict, std::move(same), result);
        for (auto& rank : result.ranks) {
            rank.rank_class = verdict.classes[static_cast<std::size_t>(rank.rank)];
        }
        result.culprit = make_culprit(seen, verdict);
        result.culprit->same_ranks = same;
        if (verdict.reason == Reason::stalled) {
            result.culprit->same_notes = note_activities(seen.record, same);
        }
        auto& rank = result.culprit->rank;
        if (verdict.reason == Reason::exit && (rank.exit_code || rank.signal)) {
            rank.exit_code = verdict.exit_code;  // of its failure, if we ended its teardown
            rank.signal.reset();
        }
    }
    if (verdict.lost) {
        result.lost_host = verdict.lost->host;
    }
    if (const auto* launcher = find_launcher(seen.plan)) {
        result.launcher = {.line = quote_line(launcher->env, launcher->argv),
                           .hidden_line = print_command(launcher->argv, Values::hidden),
                           .process = rank_result(*seen.record.launcher, RankClass::ok)};
    }
    result.sentence = sentence_for(seen, result, verdict);
    result.hosts = std::move(seen.hosts);
    result.survivors = std::move(seen.survivors);
    result.unswept = std::move(seen.unswept);
    result.warnings = std::move(seen.warnings);
    if (auto flaw = flaw_of(result); result.is_success() && !flaw.empty()) {
        result.exit_code = kExitLauncherFailure;
        result.sentence = "the ranks have succeeded, but " + std::move(flaw);
    }
    return result;
}

}  // namespace hvd::launch
