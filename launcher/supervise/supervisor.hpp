// SPDX-License-Identifier: Apache-2.0
//
// Keeps a job honest from the first agent to the last byte of output: translates what happens into
// events of the JobMachine and performs its actions.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/net/timer.hpp"
#include "launcher/plan/process_spec.hpp"
#include "launcher/supervise/agents.hpp"
#include "launcher/supervise/input_pump.hpp"
#include "launcher/supervise/job_machine.hpp"
#include "launcher/supervise/job_result.hpp"
#include "launcher/supervise/key_store.hpp"
#include "launcher/supervise/launch_trace.hpp"
#include "launcher/supervise/obituary.hpp"
#include "launcher/supervise/output_flow.hpp"
#include "launcher/supervise/plan_frames.hpp"
#include "launcher/supervise/pulse.hpp"
#include "launcher/supervise/signals.hpp"
#include "launcher/supervise/stderr_tail.hpp"
#include "launcher/supervise/sweeper.hpp"
#include "launcher/supervise/version_roll.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

struct SuperviseOptions {
    std::string build_id;  // of this program; an agent of another build is refused
    std::chrono::milliseconds start_timeout{30'000};
    std::optional<std::chrono::milliseconds> timeout;
    std::string timeout_words;  // for people: whose it is
    std::chrono::milliseconds grace{10'000};

    /// How long a host may be silent before it is lost, and its agent without a word of us before
    /// it ends its ranks. 0: for ever.
    std::chrono::milliseconds lease{30'000};

    OnFailure on_failure = OnFailure::stop;

    /// From the first end of a rank that stops nobody (exit 0; under OnFailure::wait any end) until
    /// the others must have ended too; then the job ends as by `timeout`.
    std::optional<std::chrono::milliseconds> exit_timeout = std::nullopt;

    std::size_t error_lines = StderrTail::kMaxLines;  // of the culprit, in the report
    bool verbose = false;
    OutputOptions output;  // `ranks` and `places` come from the plan

    LaunchTrace* trace = nullptr;              // outlives the supervisor; null: nobody wants it
    std::function<Status()> on_all_started{};  // with `trace`: once it is complete
};

/// What would keep the ranks of a host from running.
struct HostProblem {
    std::string host;
    wire::Problem problem;
};

/// How a job ended, and what its output and last words did not reach: nobody reads the console, or
/// a file takes nothing, and the job was not to wait for that. A thread is still blocked in a write
/// then: the process must end by _exit.
struct Supervised {
    JobResult result;
    bool is_console_abandoned = false;
    bool is_folder_abandoned = false;
};

/// Thread: the caller of its methods is the io thread.
class Supervisor final {
public:
    Supervisor(IoThread& io, const BlockedSignals& signals, SuperviseOptions options);

    /// Starts the agents and collects what they know of their hosts, in the order of `hosts`. Time
    /// counts from the construction of the supervisor. Errors: timed_out; aborted, by a signal;
    /// others for what could not be started.
    [[nodiscard]] Result<std::vector<HostFacts>> link(Starter& starter,
                                                      const std::vector<Host>& hosts);

    /// Asks the agents which of them are on one machine, whatever their hosts are called. Gives
    /// each host the first one that is its machine, mostly itself. Errors: as of `link`.
    [[nodiscard]] Result<std::vector<std::size_t>> find_machines();

    /// Asks the agent of the first host for a port of the span that is free there: for MASTER_PORT.
    /// Errors: as of `link`; invalid_argument when none is.
    [[nodiscard]] Result<int> pick_port(const PortSpan& ports);

    /// Asks every agent whether the ranks of the plan could run there. Empty: they could. Errors:
    /// as of `link`.
    [[nodiscard]] Result<std::vector<HostProblem>> check(const LaunchPlan& plan);

    /// Runs the loop until somebody stops it and `is_done`, for what else a start waits. Errors: as
    /// of `link`, with `late` when the time is over.
    [[nodiscard]] Status wait_until(const std::function<bool()>& is_done, const std::string& late);

    /// From now on `on_clock` is told how the clock of a host differs from ours each time that its
    /// agent answers. Called once, before `run`.
    using OnClock = std::function<void(std::size_t host,
                                       const ClockOffset::Sample& sample,
                                       std::chrono::steady_clock::time_point now)>;
    void watch_clocks(OnClock on_clock) { on_clock_ = std::move(on_clock); }

    /// Runs the job to its end. Errors: invalid_argument, before any rank has started.
    [[nodiscard]] Result<Supervised> run(const LaunchPlan& plan);

    /// Ends agents that have no ranks, in a job that ends with this exit code.
    void dismiss(int exit_code = 125);

    /// Where one of the questions up to here has failed: what is known of each host that did. To be
    /// said before that error.
    [[nodiscard]] std::vector<std::string> link_words() const;
    [[nodiscard]] std::vector<HostResult> link_failures() const;

    /// The signal that made `link` give up.
    [[nodiscard]] int stop_signal() const noexcept { return stop_signal_; }

private:
    enum class Phase : std::uint8_t { linking, running, draining, over };

    void on_signal(int number);
    void pass_on(int number);
    void signal_ranks(int number);
    void ask_bare_launcher(int number);
    [[nodiscard]] bool has_bare_launcher(std::size_t host) const;
    void stop_for_now();
    void go_on();
    void on_message(std::size_t host, wire::FromAgent message);
    void on_agent_end(std::size_t host);
    void wait_for_agents();
    [[nodiscard]] bool is_missing(std::size_t host) const;
    [[nodiscard]] std::vector<std::string> missing_hosts() const;
    [[nodiscard]] bool take_answer(std::size_t host);
    void give_up_missing();
    void fail_link(Error error);
    void fail_host(std::size_t host, const std::string& why, Error error);
    void stop_if_settled();
    void lose_host(std::size_t host, HostLoss loss);
    void sweep(std::size_t host, std::chrono::seconds patience);

    // In supervisor_pulse.cpp: who is still there.
    void listen_to(std::size_t host);
    void wait_for_pulse();
    void feel_pulse();
    void give_up_silent(std::size_t host);
    [[nodiscard]] wire::Ping question() const;
    [[nodiscard]] std::int64_t now_ns() const;
    [[nodiscard]] std::int64_t on_our_clock(std::size_t host, std::int64_t time_ns) const;

    void on(std::size_t host, const wire::Hello& hello);
    void on(std::size_t host, const wire::Facts& facts);
    void on(std::size_t host, wire::Checked& checked);
    void on(std::size_t host, wire::Found& found);
    void on(std::size_t host, wire::PortPicked& picked);
    void on(std::size_t host, wire::Started event);
    void on(std::size_t host, wire::StartFailed event);
    void on(std::size_t host, wire::Output& event);
    void on(std::size_t host, wire::RankReport event);
    void on(std::size_t host, wire::Exited event);
    void on(std::size_t host, wire::Put& event);
    void on(std::size_t host, const wire::Get& event);
    void on(std::size_t host, const wire::Note& event);
    void on(std::size_t host, const wire::StepSignal& event);
    void on(std::size_t host, const wire::AllGone& event);
    void on(std::size_t host, const wire::InputTaken& event);
    void on(std::size_t host, const wire::Pong& event);

    // Answers to what the doctor alone asks.
    void on(std::size_t /*host*/, const wire::LinkOpen& /*unused*/) {}
    void on(std::size_t /*host*/, const wire::LinkMeasured& /*unused*/) {}

    Status open_output();
    void start_ranks(std::vector<Frame> starts);
    void perform(JobAction action);
    void end_trace();
    void tell_ranks(const std::optional<wire::PeerLost>& lost);
    void begin_draining();
    void continue_draining();
    void watch_exit(int rank);
    void finish_if_all_gone();
    [[nodiscard]] JobResult make_result();
    void tell_job_end();
    [[nodiscard]] bool knows(std::size_t host, int rank);

    IoThread& io_;
    SuperviseOptions options_;
    Deadline start_deadline_;
    Phase phase_ = Phase::linking;
    Agents agents_;
    SignalSource signals_;
    int stop_signal_ = 0;

    std::optional<Pulse> pulse_;
    OnClock on_clock_;         // may be empty
    bool is_pausing_ = false;  // Ctrl-Z: the agents are being told

    // While linking.
    Starter* starter_ = nullptr;  // outlives `run`
    std::vector<Host> hosts_;     // as the starter knows them
    std::vector<std::optional<HostFacts>> facts_;
    std::vector<bool> is_awaited_;                      // by host: its answer is missing
    std::vector<std::vector<std::string>> found_;       // by host
    std::vector<std::vector<wire::Problem>> problems_;  // by host
    std::int64_t check_sent_ns_ = 0;                    // by our wall clock
    wire::PortPicked picked_port_;
    std::optional<Error> link_error_;                   // of the first host that failed
    std::map<std::size_t, std::string> link_failures_;  // by host: why
    std::vector<std::string> still_missing_;            // by then
    bool has_missed_start_ = false;                     // --start-timeout
    std::string notes_;                                 // of agents, before there is an output

    // While running.
    const LaunchPlan* plan_ = nullptr;  // outlives `run`
    std::optional<JobMachine> machine_;
    Obituary obituary_;
    KeyStore keys_;
    std::set<std::string> told_ways_;  // between hosts
    std::optional<VersionRoll> versions_;
    std::vector<StderrTail> tails_;  // by rank
    std::vector<bool> gone_;         // by host: its AllGone came, or its agent is lost
    std::vector<HostSurvivor> survivors_;
    std::optional<Sweeper> sweeper_;  // what agents of lost hosts have left
    std::optional<InputPump> input_;
    std::chrono::steady_clock::time_point started_at_;

    // At the end.
    bool has_given_up_agents_ = false;
    std::optional<JobResult> result_;

    Timer start_timer_;
    Timer job_timer_;
    Timer grace_timer_;
    Timer exit_timer_;
    Timer pulse_timer_;
    Timer pause_timer_;
    std::list<Timer> teardown_timers_;
    std::unique_ptr<OutputFlow> output_;  // last: its threads call into what is above
};

}  // namespace hvd::launch
