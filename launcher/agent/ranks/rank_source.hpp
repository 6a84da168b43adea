// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/io/control_stream.hpp"
#include "launcher/agent/io/event_loop.hpp"
#include "launcher/agent/io/input_feeder.hpp"
#include "launcher/agent/io/output_pump.hpp"
#include "launcher/agent/io/rank_socket.hpp"
#include "launcher/agent/io/rank_terminal.hpp"
#include "launcher/agent/processes/process_table.hpp"
#include "launcher/agent/processes/reaper.hpp"
#include "launcher/agent/ranks/oom_watch.hpp"

#include <chrono>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace hvd::launch::agent {

/// The objects that ranks are connected to, and that their starts and ends are reported to. All of
/// them outlive the ranks.
struct RankContext {
    EventLoop& loop;
    ControlStream& control;
    OutputPump& output;
    InputFeeder& input;
    RankTerminal& terminal;
    OomWatch& oom;
    RankSocket& socket;
};

/// The ranks of this host, from their start to their end: the agent spawns them (SpawnedRanks), or
/// mpirun or another launcher does and each reports to the agent (ExternalRanks).
class RankSource {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    virtual ~RankSource() = default;
    RankSource(const RankSource&) = delete;
    RankSource& operator=(const RankSource&) = delete;

    /// Does what is due: starts a few ranks, so that the agent still handles signals and messages
    /// while it starts hundreds.
    virtual void advance(TimePoint now) = 0;

    /// Whether `advance` is to be called again at once, and else when.
    [[nodiscard]] virtual bool has_to_start() const = 0;
    [[nodiscard]] virtual std::optional<TimePoint> deadline() const { return std::nullopt; }

    /// Ranks that have not been started stay so.
    virtual void cancel_starts() = 0;

    /// The job ends: a rank that another launcher starts from now on is refused.
    virtual void refuse_new() {}

    /// Whether no rank is left to be started, to run, or to have its end reported.
    [[nodiscard]] virtual bool is_over(TimePoint now) = 0;

    /// Sends the signal to every rank that runs: one that a terminal sends to a process group goes
    /// to the rank's group; others, which programs use between each other, to the rank alone.
    virtual void signal(int number) = 0;

    /// Whether a TERM is useless here: the process of this host ends when ranks elsewhere have.
    [[nodiscard]] virtual bool ends_by_itself() const { return false; }

    /// Every rank that ends from now on was ended by the launcher.
    virtual void mark_killed_by_launcher() = 0;

    /// Whether the process group of this number is that of a rank, and was asked to end with it.
    [[nodiscard]] virtual bool was_asked(pid_t group) const = 0;

    /// The process of a rank that runs.
    [[nodiscard]] virtual std::optional<pid_t> pid_of(int rank) const = 0;

    /// A child of the agent has ended and was reaped: a rank, or an orphan of one.
    virtual void child_ended(const EndedChild& child) = 0;

    /// Whether a signal that was not the launcher's has ended a rank.
    [[nodiscard]] virtual bool was_any_killed() const { return false; }

    /// Whether processes of the job may live here that are no descendants of the agent.
    [[nodiscard]] virtual bool has_non_descendants() const { return false; }

    /// Removes the processes of another launcher from those of the job.
    virtual void exclude_launcher(std::vector<Process>& /*processes*/) const {}

    /// Nothing of the job is left: reports the ends that no process has told.
    virtual void finish() {}

protected:
    RankSource() = default;
};

}  // namespace hvd::launch::agent
