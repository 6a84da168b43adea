// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/net/signals.hpp"
#include "launcher/net/timer.hpp"

#include <functional>

namespace hvd::launch {

class AgentFleet;
class IoThread;

/// The signals that horovodrun is sent from the first agent to the last. Ctrl-Z stops horovodrun
/// only after the ranks and the agents were told: once stopped, it can tell nobody. Thread: io.
class JobSignals final {
public:
    /// Each may be empty.
    struct Handlers {
        std::function<void(int signal)> on_stop_request{};  // INT, TERM, HUP, QUIT
        std::function<void(int signal)> on_other{};         // for the ranks
    };

    /// Throws Exception when the process is out of descriptors.
    JobSignals(IoThread& io, const BlockedSignals& blocked, AgentFleet& fleet);

    /// Replaces the handlers told so far.
    void listen(Handlers handlers) { handlers_ = std::move(handlers); }

    /// The last request to stop; 0 before the first.
    [[nodiscard]] int stop_signal() const noexcept { return stop_signal_; }

private:
    void on_signal(int signal);
    void stop_for_now();
    void go_on();

    IoThread& io_;
    AgentFleet& fleet_;
    Handlers handlers_;
    int stop_signal_ = 0;
    bool is_pausing_ = false;  // the agents are being told
    Timer pause_timer_;
    SignalSource source_;
};

}  // namespace hvd::launch
