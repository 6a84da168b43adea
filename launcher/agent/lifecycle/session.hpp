// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/io/control_stream.hpp"
#include "launcher/agent/io/event_loop.hpp"
#include "launcher/agent/io/input_feeder.hpp"
#include "launcher/agent/io/output_pump.hpp"
#include "launcher/agent/io/rank_socket.hpp"
#include "launcher/agent/io/rank_terminal.hpp"
#include "launcher/agent/lifecycle/agent.hpp"
#include "launcher/agent/lifecycle/agent_signals.hpp"
#include "launcher/agent/lifecycle/exit_reason.hpp"
#include "launcher/agent/lifecycle/housekeeping.hpp"
#include "launcher/agent/lifecycle/job_processes.hpp"
#include "launcher/agent/lifecycle/launcher_lease.hpp"
#include "launcher/agent/lifecycle/session_life.hpp"
#include "launcher/agent/lifecycle/step_signals.hpp"
#include "launcher/agent/lifecycle/termination.hpp"
#include "launcher/agent/probe/host_probe.hpp"
#include "launcher/agent/ranks/rank_source.hpp"
#include "launcher/wire/messages.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch::agent {

/// The agent's whole work: takes in messages of the launcher, of ranks and of the kernel, and lets
/// the parts act. It has one part for each of them, hence more members than others.
class Session final {
public:
    /// `setup` outlives this object. Throws Exception when the process is out of descriptors.
    explicit Session(const AgentSetup& setup);

    /// Until the launcher has gone before it started anything, or nothing of the job is left.
    [[nodiscard]] int run();

private:
    using TimePoint = std::chrono::steady_clock::time_point;

    void introduce();
    void advance(TimePoint now);
    void clear(TimePoint now);
    [[nodiscard]] bool may_leave() const;
    [[nodiscard]] Deadline next_deadline() const;
    void leave();

    void stop(std::chrono::milliseconds grace);
    void leave_job(int signal, const std::string& why, std::chrono::milliseconds grace);
    void perform(Termination::Action action);
    void on_launcher_gone(const std::optional<Error>& error);
    void on_signal(const AgentSignal& signal);
    void on_step_signal(int number);
    void note(std::string text);

    void on(wire::Start& start);
    void on(const wire::Signal& signal);
    void on(const wire::Stop& stop);
    void on(const wire::Input& input) { input_.feed(input.bytes); }
    void on(const wire::WindowSize& size) { terminal_.resize(size); }
    void on(const wire::Credit& credit) { output_.grant(credit.bytes); }
    void on(const wire::PutDone& done);
    void on(const wire::GetValue& value);
    void on(const wire::PeerLost& lost);
    void on(const wire::Inspect& question);
    void on(const wire::Ping& ping);
    void on(wire::Ended& ended);
    void on(const auto& question) { probe_.on(question); }

    const AgentSetup& setup_;
    EventLoop loop_;
    ControlStream control_;
    OutputPump output_;
    InputFeeder input_;
    RankTerminal terminal_;
    std::optional<RankSocket> socket_;
    HostProbe probe_;
    Housekeeping housekeeping_;
    JobProcesses processes_;
    std::vector<Survivor> survivors_;
    LauncherLease lease_;
    AgentSignals signals_;
    StepSignals step_signals_;
    bool reports_step_signals_ = false;  // the agent of rank 0 does
    std::unique_ptr<RankSource> ranks_;
    std::chrono::milliseconds grace_{0};  // of the plan
    Termination termination_;
    SessionLife life_;
    ExitReason exit_reason_;
};

}  // namespace hvd::launch::agent
