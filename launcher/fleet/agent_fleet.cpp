// SPDX-License-Identifier: Apache-2.0
#include "launcher/fleet/agent_fleet.hpp"

#include "launcher/net/io_thread.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace hvd::launch {
namespace {

/// How long an agent may take to end that has no ranks.
constexpr auto kEndTimeout = std::chrono::seconds(5);

std::int64_t as_ns(std::chrono::steady_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// "30", "0.5".
std::string in_seconds(std::chrono::milliseconds span) {
    std::array<char, 32> text{};
    (void)std::snprintf(text.data(), text.size(), "%g",
                        std::chrono::duration<double>(span).count());
    return text.data();
}

}  // namespace

AgentFleet::AgentFleet(IoThread& io, std::string build_id, std::chrono::milliseconds lease)
    : io_(io),
      build_id_(std::move(build_id)),
      lease_(lease),
      streams_(
          {.on_message = [this](std::size_t host,
                                wire::FromAgent message) { on_message(host, std::move(message)); },
           .on_end = [this](std::size_t host) { on_stream_end(host); },
           .on_heard = [this](std::size_t host) { heartbeat_->heard(host, io_.now()); }}),
      heartbeat_timer_(io),
      limit_(io) {}

// ---- questions ----

std::vector<std::optional<HostFacts>> AgentFleet::link(Starter& starter,
                                                       const std::vector<Host>& hosts,
                                                       const Timeout& timeout) {
    starter_ = &starter;
    heartbeat_.emplace(lease_, hosts.size());
    streams_.start(io_, starter, hosts);
    std::vector<std::optional<HostFacts>> facts(hosts.size());
    wait({.take =
              [&](std::size_t host, wire::FromAgent& message) {
                  auto* told = std::get_if<wire::Facts>(&message);
                  if (told != nullptr) {
                      facts[host] = std::move(told->facts);
                      begin_heartbeat(host);
                  }
                  return told != nullptr;
              },
          .is_awaited = std::vector<bool>(hosts.size(), true),
          .timeout = timeout});
    return facts;
}

void AgentFleet::ask(Take take, std::vector<Frame> questions, const Timeout& timeout) {
    Question question{
        .take = std::move(take), .is_awaited = std::vector<bool>(size()), .timeout = timeout};
    for (std::size_t host = 0; host < questions.size(); ++host) {
        if (!questions[host].empty()) {
            question.is_awaited[host] = true;
            send_frame(host, std::move(questions[host]));
        }
    }
    wait(std::move(question));
}

void AgentFleet::wait(Question question) {
    question_.emplace(std::move(question));
    if (!is_settled()) {
        limit_.set(question_->timeout.deadline, [this] { io_.stop(); });
        io_.run();
        limit_.cancel();
    }
    question_.reset();
}

/// Whether no answer can come any more.
bool AgentFleet::is_settled() const {
    for (std::size_t host = 0; host < size(); ++host) {
        if (question_->is_awaited[host] && !has_ended(host)) {
            return false;
        }
    }
    return true;
}

bool AgentFleet::take_answer(std::size_t host, wire::FromAgent& message) {
    if (!question_ || !question_->is_awaited[host] || !question_->take(host, message)) {
        return false;
    }
    question_->is_awaited[host] = false;
    if (events_.on_answer) {
        events_.on_answer(host);
    }
    if (is_settled()) {
        io_.stop();
    }
    return true;
}

// ---- what agents say ----

void AgentFleet::on_message(std::size_t host, wire::FromAgent message) {
    if (is_dismissed_) {
        return;
    }
    if (const auto* hello = std::get_if<wire::Hello>(&message)) {
        check_build(host, *hello);
    } else if (const auto* pong = std::get_if<wire::Pong>(&message)) {
        take_pong(host, *pong);
    } else if (!take_answer(host, message) && events_.on_message) {
        events_.on_message(host, std::move(message));
    }
}

void AgentFleet::check_build(std::size_t host, const wire::Hello& hello) {
    if (hello.version != wire::kProtocolVersion || hello.build_id != build_id_) {
        refuse(host, {Errc::mismatch, "the agent is of build '" + hello.build_id +
                                          "', horovodrun of build '" + build_id_ +
                                          "': install both from one build"});
    }
}

void AgentFleet::take_pong(std::size_t host, const wire::Pong& pong) {
    heartbeat_->answered(host, pong, io_.now());
    const auto sample = ClockOffset::measure(pong, now_ns());
    if (on_clock_ && sample) {
        on_clock_(host, *sample, io_.now());
    }
}

void AgentFleet::on_stream_end(std::size_t host) {
    heartbeat_->remove(host);
    const auto& error = end_of(host);
    agent_ended({.host = host,
                 .why = error ? error->message : "it ended without a word",
                 .since = streams_.was_refused(host) ? heartbeat_->heard_at(host) : io_.now()});
}

void AgentFleet::agent_ended(const AgentEnd& end) {
    if (is_dismissed_) {
        if (have_all_ended()) {
            io_.stop();
        }
        return;
    }
    if (events_.on_end) {
        events_.on_end(end);
    }
    if (!question_) {
        return;
    }
    auto& timeout = question_->timeout;
    if (const auto more = std::exchange(timeout.after_an_end, std::nullopt)) {
        const auto limit = io_.in(*more);
        limit_.set(limit.is_before(timeout.deadline) ? limit : timeout.deadline,
                   [this] { io_.stop(); });
    }
    if (is_settled()) {
        io_.stop();
    }
}

void AgentFleet::abandon(std::size_t host, Error error) {
    heartbeat_->remove(host);
    streams_.abandon(host, std::move(error));
}

void AgentFleet::expect_silence(std::size_t host) {
    heartbeat_->remove(host);
    if (wants_job_end(host)) {
        // It stays until the job has ended, and is not asked any more whether it lives.
        send(host, wire::Ping{.asked_ns = 0, .lease_ms = 0});
    }
}

// ---- heartbeat and clocks ----

void AgentFleet::begin_heartbeat(std::size_t host) {
    const bool is_here = is_on_this_machine(host);
    heartbeat_->add(host, is_here ? Heartbeat::Clock::ours : Heartbeat::Clock::its_own, io_.now());
    if (is_here) {
        wait_for_beat();
    } else {
        beat();
    }
}

void AgentFleet::wait_for_beat() {
    heartbeat_timer_.set(Deadline(heartbeat_->next()), [this] { beat(); });
}

void AgentFleet::beat() {
    const auto due = heartbeat_->due(io_.now());
    ping(due.ask);
    for (const auto host : due.silent) {
        if (events_.on_silence) {
            events_.on_silence(host, "no word from " + name(host) + " for " +
                                         in_seconds(Heartbeat::kSilence) + " s");
        }
    }
    for (const auto host : due.lost) {
        const auto why = "no word from it for " + in_seconds(lease_) + " s (--lease)";
        streams_.abandon(host, {Errc::timed_out, why});
        agent_ended(
            {.host = host, .why = why, .is_silent = true, .since = heartbeat_->heard_at(host)});
    }
    wait_for_beat();
}

void AgentFleet::hurry_heartbeat() {
    ping(heartbeat_->hurry(io_.now()));
    wait_for_beat();
}

void AgentFleet::ping(const std::vector<std::size_t>& hosts) {
    for (const auto host : hosts) {
        send(host, wire::Ping{.asked_ns = now_ns(), .lease_ms = lease_.count()});
    }
}

void AgentFleet::suspend(const std::function<void()>& told) {
    if (heartbeat_) {
        for (const auto host : heartbeat_->hosts()) {
            send(host, wire::Ping{.asked_ns = 0, .lease_ms = 0});
        }
        heartbeat_->pause();
    }
    streams_.when_all_sent(told);
}

void AgentFleet::resume() {
    if (heartbeat_) {
        heartbeat_->resume(io_.now());
        beat();
    }
}

std::int64_t AgentFleet::now_ns() const {
    return as_ns(io_.now());
}

std::int64_t AgentFleet::to_our_clock(std::size_t host, std::int64_t time_ns) const {
    return heartbeat_->has_own_clock(host)
               ? heartbeat_->offset(host).to_our_clock(time_ns, now_ns())
               : time_ns;
}

// ---- the end ----

void AgentFleet::close(const wire::Ended& ended) {
    streams_.tell_job_end(ended);
    streams_.close();
}

void AgentFleet::dismiss(int exit_code) {
    is_dismissed_ = true;
    heartbeat_timer_.cancel();
    close({.exit_code = exit_code, .text = {}});
    if (!have_all_ended()) {
        limit_.set(io_.in(kEndTimeout), [this] { io_.stop(); });
        io_.run();
        limit_.cancel();
    }
}

}  // namespace hvd::launch
