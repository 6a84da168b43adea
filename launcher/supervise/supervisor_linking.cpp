// SPDX-License-Identifier: Apache-2.0
//
// How the supervisor waits for the agents, and what it says of those that do not come.
#include "launcher/output/write_all.hpp"
#include "launcher/supervise/link_failures.hpp"
#include "launcher/supervise/supervisor.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <unistd.h>

namespace hvd::launch {
namespace {

/// How long the others may still link, or fail too, once one has failed: who has several bad hosts
/// should learn of them all at once.
constexpr auto kOthersPatience = std::chrono::seconds(2);

/// How long an agent may take to end that has no ranks.
constexpr auto kAgentPatience = std::chrono::seconds(5);

}  // namespace

Result<std::vector<HostFacts>> Supervisor::link(Starter& starter, const std::vector<Host>& hosts) {
    starter_ = &starter;
    hosts_ = hosts;
    facts_.resize(hosts.size());
    pulse_.emplace(options_.lease, hosts.size());
    if (options_.trace != nullptr) {
        options_.trace->enter("link", io_.now());
    }
    agents_.start(io_, starter, hosts);
    wait_for_agents();
    if (link_error_) {
        return *std::move(link_error_);
    }
    std::vector<HostFacts> facts;
    for (const auto& host_facts : facts_) {
        facts.push_back(*host_facts);
    }
    return facts;
}

/// Its facts, or its answer to the last question, we lack.
bool Supervisor::is_missing(std::size_t host) const {
    return !facts_[host] || (host < is_awaited_.size() && is_awaited_[host]);
}

/// Those of which we do not even know that they have failed.
std::vector<std::string> Supervisor::missing_hosts() const {
    std::vector<std::string> names;
    for (std::size_t host = 0; host < agents_.size(); ++host) {
        if (is_missing(host) && !agents_.has_ended(host)) {
            names.push_back(agents_.host(host));
        }
    }
    return names;
}

void Supervisor::wait_for_agents() {
    start_timer_.set(start_deadline_, [this] { give_up_missing(); });
    io_.run();
    start_timer_.cancel();
    if (!link_failures_.empty() && !has_missed_start_) {
        still_missing_ = missing_hosts();
    }
}

Status Supervisor::wait_until(const std::function<bool()>& is_done, const std::string& late) {
    start_timer_.set(start_deadline_, [&] { fail_link({Errc::timed_out, late}); });
    while (!is_done() && !link_error_) {
        io_.run();
    }
    start_timer_.cancel();
    return link_error_ ? Status(*std::move(link_error_)) : ok();
}

void Supervisor::give_up_missing() {
    has_missed_start_ = true;
    const auto missing = missing_hosts();
    for (std::size_t host = 0; host < agents_.size() && !link_error_; ++host) {
        if (!is_missing(host)) {
            continue;
        }
        const auto& error = agents_.end_of(host);
        auto why = error ? error->message : agents_.progress(host);
        if (facts_[host]) {
            why = "its agent does not answer any more; a file system may hang there";
        } else if (why.empty()) {
            why = "no word from its agent";
        }
        link_failures_.emplace(host, std::move(why));
    }
    fail_link({Errc::timed_out, "no word within --start-timeout from " + short_list(missing) +
                                    "; look whether they can be reached, or allow more time"});
}

void Supervisor::fail_link(Error error) {
    if (!link_error_ || error.code == Errc::aborted) {
        link_error_ = std::move(error);
    }
    io_.stop();
}

/// The first one decides what is said last; the others get a moment to be told with it.
void Supervisor::fail_host(std::size_t host, const std::string& why, Error error) {
    link_failures_.emplace(host, why);
    if (!link_error_) {
        link_error_ = std::move(error);
        const auto limit = io_.in(kOthersPatience);
        start_timer_.set(Deadline(std::min(limit.end(), start_deadline_.end())),
                         [this] { io_.stop(); });
    }
    stop_if_settled();
}

void Supervisor::stop_if_settled() {
    for (std::size_t host = 0; host < agents_.size(); ++host) {
        if (is_missing(host) && !agents_.has_ended(host)) {
            return;
        }
    }
    io_.stop();
}

std::vector<HostResult> Supervisor::link_failures() const {
    std::vector<HostResult> failures;
    for (const auto& [host, why] : link_failures_) {
        failures.push_back({.host = agents_.host(host), .state = "lost", .error = why});
    }
    return failures;
}

std::vector<std::string> Supervisor::link_words() const {
    const bool is_told_last = link_failures_.size() == 1 && !has_missed_start_;
    return tell_link_failures(is_told_last ? std::vector<HostResult>() : link_failures(),
                              still_missing_);
}

void Supervisor::dismiss(int exit_code) {
    phase_ = Phase::over;
    if (exit_code == 0) {
        (void)write_all(STDERR_FILENO, notes_);  // of hosts that would do; else an error has these
    }
    agents_.tell_job_end({.exit_code = exit_code, .text = {}});
    agents_.close();
    if (!agents_.all_ended()) {
        grace_timer_.set(io_.in(kAgentPatience), [this] { io_.stop(); });
        io_.run();
    }
}

void Supervisor::on(std::size_t host, const wire::Hello& hello) {
    if (hello.version != wire::kProtocolVersion || hello.build_id != options_.build_id) {
        agents_.refuse(host, {Errc::mismatch, "the agent is of build '" + hello.build_id +
                                                  "', horovodrun of build '" + options_.build_id +
                                                  "': install both from one build"});
    }
}

void Supervisor::on(std::size_t host, const wire::Facts& facts) {
    facts_[host] = facts.facts;
    if (options_.trace != nullptr) {
        options_.trace->done(host, io_.now());
    }
    listen_to(host);
    stop_if_settled();
}

}  // namespace hvd::launch
