// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/job_end.hpp"

#include "launcher/net/io_thread.hpp"
#include "launcher/supervise/job_result.hpp"
#include "launcher/supervise/make_result.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace hvd::launch {
namespace {

/// How long an agent may take to end once its ranks are gone.
constexpr auto kAgentTimeout = std::chrono::seconds(5);

}  // namespace

JobEnd::JobEnd(Context context)
    : context_(std::move(context)), started_at_(context_.io.now()), timer_(context_.io) {}

void JobEnd::begin() {
    has_begun_ = true;
    context_.streams.end();
    close_fleet();
    timer_.set(context_.io.in(kAgentTimeout), [this] {
        has_given_up_agents_ = true;
        go_on();
    });
    // A job that ended by itself has its output delivered, however long its reader takes.
    const auto cause = context_.machine.record().cause.kind;
    if (cause != Cause::Kind::none && cause != Cause::Kind::rank_failed) {
        context_.streams.output().limit(context_.io.in(kDrainTimeout));
    }
    go_on();
}

/// Two rounds: all that the ranks wrote, then the last words.
void JobEnd::go_on() {
    auto& output = context_.streams.output();
    const bool is_settled = context_.fleet.have_all_ended() && !context_.hosts.is_cleaning_up();
    if (!has_begun_ || !(is_settled || has_given_up_agents_) || !output.is_idle()) {
        return;
    }
    if (!result_) {
        result_ = make_result();
        const auto words = format_last_words(*result_);
        if (!words.empty()) {
            output.say_as_is(words, format_last_words(*result_, Values::hidden));
            if (!output.is_idle()) {
                return;
            }
        }
    }
    context_.io.stop();
}

/// Agents that end with the job's exit code learn it as it is known before they have ended.
void JobEnd::close_fleet() {
    const auto known = refusal_ ? *refusal_
                                : launch::make_result({.plan = context_.plan,
                                                       .record = context_.machine.record(),
                                                       .tails = context_.streams.tails(),
                                                       .time_limit = context_.time_limit});
    constexpr std::string_view kPrefix = "horovodrun: ";
    const auto words = format_last_words(known);
    const auto line = std::string_view(words).substr(0, words.find('\n'));
    context_.fleet.close({.exit_code = known.exit_code,
                          .text = std::string(line.substr(std::min(line.size(), kPrefix.size())))});
}

JobResult JobEnd::make_result() {
    if (refusal_) {
        return *refusal_;
    }
    const auto& fleet = context_.fleet;
    const auto& losses = context_.machine.record().lost_hosts;
    std::vector<HostResult> hosts;
    for (std::size_t host = 0; host < fleet.size(); ++host) {
        hosts.push_back({.host = fleet.name(host), .state = "ok", .error = {}});
        const auto loss = std::ranges::find(losses, fleet.name(host), &HostLoss::host);
        if (loss != losses.end()) {  // also where its agent left in order, as it was told to
            hosts.back() = {.host = loss->host, .state = "lost", .error = loss->why};
        } else if (const auto& error = fleet.end_of(host)) {
            hosts.back() = {.host = fleet.name(host), .state = "lost", .error = error->message};
        }
    }
    const std::chrono::duration<double> lasted = context_.io.now() - started_at_;
    return launch::make_result({.plan = context_.plan,
                                .record = context_.machine.record(),
                                .tails = context_.streams.tails(),
                                .hosts = std::move(hosts),
                                .survivors = context_.hosts.take_survivors(),
                                .unswept = context_.hosts.take_unswept(),
                                .warnings = context_.streams.output().losses(),
                                .seconds = lasted.count(),
                                .time_limit = context_.time_limit});
}

}  // namespace hvd::launch
