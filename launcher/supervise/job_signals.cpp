// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/job_signals.hpp"

#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/net/io_thread.hpp"

#include <chrono>
#include <csignal>
#include <utility>

namespace hvd::launch {
namespace {

/// How long Ctrl-Z waits for agents to be told: one that cannot be reached has its lease.
constexpr auto kPauseTimeout = std::chrono::seconds(1);

}  // namespace

JobSignals::JobSignals(IoThread& io, const BlockedSignals& blocked, AgentFleet& fleet)
    : io_(io),
      fleet_(fleet),
      pause_timer_(io),
      source_(io, blocked, [this](int signal) { on_signal(signal); }) {}

void JobSignals::on_signal(int signal) {
    if (is_stop_request(signal)) {
        stop_signal_ = signal;
        if (handlers_.on_stop_request) {
            handlers_.on_stop_request(signal);
        }
        return;
    }
    if (handlers_.on_other) {
        handlers_.on_other(signal);
    }
    if (signal == SIGCONT && std::exchange(is_pausing_, false)) {
        go_on();  // a stop that has not come yet is called off
    }
    if (signal == SIGTSTP && !std::exchange(is_pausing_, true)) {
        pause_timer_.set(io_.in(kPauseTimeout), [this] { stop_for_now(); });
        fleet_.suspend([this] { stop_for_now(); });
    }
}

void JobSignals::stop_for_now() {
    if (std::exchange(is_pausing_, false)) {
        stop_self();
        go_on();
    }
}

void JobSignals::go_on() {
    pause_timer_.cancel();
    fleet_.resume();
}

}  // namespace hvd::launch
