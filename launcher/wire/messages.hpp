// SPDX-License-Identifier: Apache-2.0
//
// The messages between launcher and agent, as values. frames.hpp turns them into bytes.
//
// A session: the agent speaks first (Hello, then Facts). The launcher answers with Start, or closes
// the stream after a dry run. From then on the agent reports, in this order for each rank: Started
// or StartFailed, Output and Report, Exited. An end is never held back: Output that found no credit
// comes after it, as does that of processes which outlive their rank. An agent that ends its ranks
// though the launcher has not asked for it sends Leaving before their ends. AllGone follows when no
// descendant of any rank is left and all their output was sent; the agent ends after it. The end of
// the launcher's stream at any other time means: TERM, and KILL half a second later.
//
// Times of events are on the steady clock of the agent's host, those of Output on its wall clock.
// Where a link can fall silent the launcher asks with Ping, and the agent answers each with Pong:
// both hear of each other, and the launcher learns how the clocks differ.
#pragma once

#include "collectives/launch_contract/agent_protocol.hpp"
#include "launcher/model/launch_plan.hpp"
#include "launcher/model/output_stream.hpp"
#include "launcher/model/survivor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace hvd::launch::wire {

inline constexpr std::uint16_t kProtocolVersion = 1;

// ---- agent → launcher ----

struct Hello {
    std::uint16_t version = kProtocolVersion;
    std::string build_id;  // a launcher refuses an agent of another build
    std::int32_t pid = 0;
    friend bool operator==(const Hello&, const Hello&) = default;
};

struct Facts {
    HostFacts facts;
    friend bool operator==(const Facts&, const Facts&) = default;
};

struct Started {
    std::int32_t rank = 0;
    std::int32_t pid = 0;
    std::int64_t time_ns = 0;
    friend bool operator==(const Started&, const Started&) = default;
};

/// The rank could not be started: which step failed, its errno, and in a sentence why the host
/// cannot execute the command, where that is the step.
struct StartFailed {
    std::int32_t rank = 0;
    std::string step;  // "chdir /data", "execve ./train", "sched_setaffinity"
    std::int32_t error_number = 0;
    std::string why_not_executed{};  // empty: another step has failed
    std::int64_t time_ns = 0;
    friend bool operator==(const StartFailed&, const StartFailed&) = default;
};

struct Output {
    std::int32_t rank = 0;
    OutputStream stream = OutputStream::out;
    std::int64_t time_ns = 0;  // since 1970 (UTC), when the agent read it
    std::vector<std::byte> bytes;
    friend bool operator==(const Output&, const Output&) = default;
};

/// A rank told its agent why it is about to fail.
struct RankReport {
    std::int32_t rank = 0;
    std::int64_t time_ns = 0;
    coll::agent_message::Report report;
    friend bool operator==(const RankReport&, const RankReport&) = default;
};

/// The activity of a rank, or of a child for which it waits; the answer to Inspect.
struct RankActivity {
    std::int32_t rank = 0;
    std::string state;         // one character of /proc/PID/stat
    std::string wait_channel;  // the kernel function in which it waits; empty: not known
    std::int64_t cpu_ms = 0;   // the time of all CPUs that it and its children have taken
    friend bool operator==(const RankActivity&, const RankActivity&) = default;
};

struct Exited {
    std::int32_t rank = 0;
    std::int64_t time_ns = 0;
    std::int32_t wait_status = 0;        // as waitpid gives it
    bool is_killed_by_launcher = false;  // we had sent it a TERM or KILL before
    std::string oom;                     // why we say that memory ran out; empty: nothing says so
    std::uint64_t max_rss_bytes = 0;
    bool is_unseen = false;  // it is gone; how, only mpirun was told. Then the status is 0.
    friend bool operator==(const Exited&, const Exited&) = default;
};

struct Put {
    std::int32_t rank = 0;
    std::uint32_t request = 0;
    std::string key;
    std::vector<std::byte> value;
    friend bool operator==(const Put&, const Put&) = default;
};

struct Get {
    std::int32_t rank = 0;
    std::uint32_t request = 0;
    std::string key;
    friend bool operator==(const Get&, const Get&) = default;
};

/// Something a person should read, such as "the guard died".
struct Note {
    std::string text;
    friend bool operator==(const Note&, const Note&) = default;
};

/// Slurm gave a signal to all processes of the step, the ranks included.
struct StepSignal {
    std::int32_t signal = 0;
    friend bool operator==(const StepSignal&, const StepSignal&) = default;
};

/// The agent ends its ranks, and the launcher has not asked for it: a signal has told the agent to
/// end, as when the node is drained, or its guard was killed.
struct Leaving {
    std::int64_t time_ns = 0;
    std::int32_t signal = 0;  // that the agent got; 0: its guard was killed
    std::string why;          // "the agent got SIGTERM from process 4711"
    friend bool operator==(const Leaving&, const Leaving&) = default;
};

struct AllGone {
    std::vector<Survivor> survivors;  // empty in every normal end
    friend bool operator==(const AllGone&, const AllGone&) = default;
};

/// Every reader of standard input on this host has taken `bytes` more bytes of it. The launcher
/// keeps at most kInputWindow bytes of Input under way.
struct InputTaken {
    std::uint64_t bytes = 0;
    friend bool operator==(const InputTaken&, const InputTaken&) = default;
};

/// The answer to a Ping.
struct Pong {
    std::int64_t asked_ns = 0;  // as the Ping had it
    std::int64_t heard_ns = 0;
    std::int64_t answered_ns = 0;
    friend bool operator==(const Pong&, const Pong&) = default;
};

/// A problem that keeps the ranks of this host from running, with its remedy.
struct Problem {
    std::int32_t exit_code = 0;  // that horovodrun ends with: 127 not found, 126, 2
    std::string text;
    friend bool operator==(const Problem&, const Problem&) = default;
};

/// The answer to Check. Without a question: this host has started none of the ranks of Start,
/// because of these problems.
struct Checked {
    std::vector<Problem> problems;
    NcclFile nccl{};           // for an examination
    std::int64_t wall_ns = 0;  // since 1970 (UTC), by the clock of the host
    friend bool operator==(const Checked&, const Checked&) = default;
};

/// The answer to Seek: those of its marks that were reached.
struct Found {
    std::vector<std::string> marks;
    friend bool operator==(const Found&, const Found&) = default;
};

/// The answer to OpenLink: where this host listens, as coll::net::encode(RankRecord) has it.
struct LinkOpen {
    std::uint32_t id = 0;
    std::vector<std::byte> record{};
    std::string error{};  // why it does not listen; empty: it does
    friend bool operator==(const LinkOpen&, const LinkOpen&) = default;
};

/// The answer to MeasureLink.
struct LinkMeasured {
    std::uint32_t id = 0;
    std::string address{};  // "10.0.0.2:4711 (eth0)"
    std::int64_t round_trip_ns = 0;
    std::uint64_t bytes_per_second = 0;
    std::string error{};  // every address that was tried, with its error; empty: it was measured
    friend bool operator==(const LinkMeasured&, const LinkMeasured&) = default;
};

/// The answer to PickPort.
struct PortPicked {
    std::int32_t port = 0;  // 0: none of them is free
    std::string taken{};    // then by whom; as tell_port_holders has it
    friend bool operator==(const PortPicked&, const PortPicked&) = default;
};

// ---- launcher → agent ----

/// Output under way, in bytes: of one agent at most, of all agents together, and of each at least.
inline constexpr std::uint64_t kOutputWindow = std::uint64_t{4} << 20;
inline constexpr std::uint64_t kOutputBudget = std::uint64_t{16} << 20;
inline constexpr std::uint64_t kLeastOutputWindow = std::uint64_t{64} << 10;

/// Of each agent besides, so that the last words of a rank arrive though nobody reads.
inline constexpr std::uint64_t kLastOutputRoom = std::uint64_t{32} << 10;

/// The share of each agent.
constexpr std::uint64_t output_window(std::size_t agents) {
    return std::clamp(kOutputBudget / std::max<std::uint64_t>(agents, 1), kLeastOutputWindow,
                      kOutputWindow);
}

struct Start {
    JobPlan job;
    HostPlan plan;
    std::uint64_t output_window = kOutputWindow;  // the first credit
    friend bool operator==(const Start&, const Start&) = default;
};

/// Asks, before any rank starts anywhere, whether those of this host could.
struct Check {
    JobPlan job;
    HostPlan plan;
    int np = 0;                   // ranks of the whole job
    bool is_examination = false;  // of the doctor, who also says what harms no job
    friend bool operator==(const Check&, const Check&) = default;
};

/// Asks which of these agents are on this machine too. Names, addresses and machine ids cannot
/// tell: containers share them; a socket of a random name can.
struct Seek {
    std::vector<std::string> marks;
    friend bool operator==(const Seek&, const Seek&) = default;
};

/// Asks for a port from `first` to `last` that nobody uses on this host, in place of the one of the
/// facts.
struct PickPort {
    std::int32_t first = 0;
    std::int32_t last = 0;
    friend bool operator==(const PickPort&, const PickPort&) = default;
};

/// Sends `number` to every rank of the host that still runs. Stops nothing.
struct Signal {
    std::int32_t number = 0;
    friend bool operator==(const Signal&, const Signal&) = default;
};

/// TERM to all ranks, KILL to every descendant `grace_ms` later. 0 kills at once.
struct Stop {
    std::int64_t grace_ms = 0;
    friend bool operator==(const Stop&, const Stop&) = default;
};

/// Standard input for the rank or ranks of the plan; no bytes mean its end.
struct Input {
    std::vector<std::byte> bytes;
    friend bool operator==(const Input&, const Input&) = default;
};

/// The size of horovodrun's terminal, which that of the rank with a terminal has too: before Start,
/// and after each change.
struct WindowSize {
    std::uint16_t rows = 0;
    std::uint16_t columns = 0;
    friend bool operator==(const WindowSize&, const WindowSize&) = default;
};

/// The launcher has disposed of `bytes` more bytes of Output. The agent keeps at most the window of
/// Start under way, and for the last output of ranks that have ended kLastOutputRoom more; it reads
/// no more from the ranks until credit arrives.
struct Credit {
    std::uint64_t bytes = 0;
    friend bool operator==(const Credit&, const Credit&) = default;
};

struct PutDone {
    std::int32_t rank = 0;
    std::uint32_t request = 0;
    std::string error;  // empty: it was stored
    friend bool operator==(const PutDone&, const PutDone&) = default;
};

struct GetValue {
    std::int32_t rank = 0;
    std::uint32_t request = 0;
    std::vector<std::byte> value;
    friend bool operator==(const GetValue&, const GetValue&) = default;
};

/// A rank of the job is gone: the agent sends this to the ranks of its host, through their socket.
struct PeerLost {
    std::int32_t rank = 0;
    std::string why;  // a sentence that names rank and host
    friend bool operator==(const PeerLost&, const PeerLost&) = default;
};

/// Asks what these ranks do. Each agent answers for those that run on its host.
struct Inspect {
    std::vector<std::int32_t> ranks;
    friend bool operator==(const Inspect&, const Inspect&) = default;
};

/// Asks for a Pong. An agent that then hears nothing for the time of the lease ends its ranks; 0
/// lifts the lease until the next Ping.
struct Ping {
    std::int64_t asked_ns = 0;  // on the launcher's steady clock
    std::int64_t lease_ms = 0;
    friend bool operator==(const Ping&, const Ping&) = default;
};

/// Asks an agent to listen for the other end of a measurement, at the addresses that `interfaces`
/// and `ports` allow (HOROVOD_NETWORK_INTERFACES, HOROVOD_PORT_RANGE). Who connects must know
/// `secret`. It listens until that has happened, CloseLink comes, or a time limit passes.
struct OpenLink {
    std::uint32_t id = 0;
    std::vector<std::byte> secret{};
    std::string interfaces{};
    std::string ports{};
    friend bool operator==(const OpenLink&, const OpenLink&) = default;
};

/// Asks an agent to connect to the `record` of the other end, and to measure.
struct MeasureLink {
    std::uint32_t id = 0;
    std::vector<std::byte> secret{};
    std::string interfaces{};
    std::vector<std::byte> record{};
    friend bool operator==(const MeasureLink&, const MeasureLink&) = default;
};

struct CloseLink {
    std::uint32_t id = 0;
    friend bool operator==(const CloseLink&, const CloseLink&) = default;
};

/// How the job ended, to an agent whose own exit code is to tell it: one that somebody started by
/// hand to join. It comes before the end of the stream.
struct Ended {
    std::int32_t exit_code = 0;
    std::string text;  // who is to blame; empty after a success
    friend bool operator==(const Ended&, const Ended&) = default;
};

inline constexpr std::uint64_t kInputWindow = std::uint64_t{1} << 20;

using FromAgent = std::variant<Hello,
                               Facts,
                               Started,
                               StartFailed,
                               Output,
                               RankReport,
                               Exited,
                               Put,
                               Get,
                               Note,
                               AllGone,
                               InputTaken,
                               Pong,
                               Checked,
                               Found,
                               LinkOpen,
                               LinkMeasured,
                               PortPicked,
                               StepSignal,
                               RankActivity,
                               Leaving>;
using ToAgent = std::variant<Start,
                             Signal,
                             Stop,
                             Input,
                             Credit,
                             PutDone,
                             GetValue,
                             Ping,
                             Check,
                             Seek,
                             OpenLink,
                             MeasureLink,
                             CloseLink,
                             Ended,
                             PeerLost,
                             PickPort,
                             Inspect,
                             WindowSize>;

}  // namespace hvd::launch::wire
