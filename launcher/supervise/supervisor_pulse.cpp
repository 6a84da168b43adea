// SPDX-License-Identifier: Apache-2.0
//
// How the supervisor hears that the agents are still there.
#include "launcher/supervise/supervisor.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

namespace hvd::launch {
namespace {

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

void Supervisor::listen_to(std::size_t host) {
    const bool is_here = agents_.is_on_this_machine(host);
    pulse_->add(host, is_here ? Pulse::Clock::ours : Pulse::Clock::its_own, io_.now());
    if (is_here) {
        wait_for_pulse();
    } else {
        feel_pulse();
    }
}

void Supervisor::wait_for_pulse() {
    pulse_timer_.set(Deadline(pulse_->next()), [this] { feel_pulse(); });
}

void Supervisor::feel_pulse() {
    const auto due = pulse_->due(io_.now());
    for (const auto host : due.ask) {
        agents_.send(host, question());
    }
    for (const auto host : due.silent) {
        const auto sentence =
            "no word from " + agents_.host(host) + " for " + in_seconds(Pulse::kSilence) + " s";
        if (output_) {
            output_->say(sentence);
        } else {
            notes_ += "horovodrun: " + sentence + "\n";
        }
    }
    for (const auto host : due.lost) {
        give_up_silent(host);
    }
    wait_for_pulse();
}

void Supervisor::give_up_silent(std::size_t host) {
    const auto why = "no word from it for " + in_seconds(pulse_->lease()) + " s (--lease)";
    agents_.abandon(host, {Errc::timed_out, why});
    switch (phase_) {
        case Phase::linking:
            fail_host(host, why,
                      {Errc::unavailable, "lost host " + agents_.host(host) + ": " + why});
            return;
        case Phase::running:
            sweep(host, Sweeper::kPatienceWithSilent);
            lose_host(
                host,
                {.host = agents_.host(host), .time_ns = as_ns(pulse_->heard_at(host)), .why = why});
            return;
        case Phase::draining: continue_draining(); return;
        case Phase::over: return;
    }
}

wire::Ping Supervisor::question() const {
    return {.asked_ns = as_ns(io_.now()), .lease_ms = pulse_->lease().count()};
}

std::int64_t Supervisor::on_our_clock(std::size_t host, std::int64_t time_ns) const {
    return pulse_->has_own_clock(host) ? pulse_->offset(host).to_our_clock(time_ns, now_ns())
                                       : time_ns;
}

std::int64_t Supervisor::now_ns() const {
    return as_ns(io_.now());
}

void Supervisor::on(std::size_t host, const wire::Pong& event) {
    pulse_->answered(host, event, io_.now());
    const auto sample = ClockOffset::measure(event, now_ns());
    if (on_clock_ && sample) {
        on_clock_(host, *sample, io_.now());
    }
}

}  // namespace hvd::launch
