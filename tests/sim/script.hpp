// SPDX-License-Identifier: Apache-2.0
//
// The events of a simulated job: values, written by a test or drawn from a seed.
#pragma once

#include "launcher/model/launch_request.hpp"
#include "launcher/supervise/job_machine.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvd::sim {

using Duration = std::chrono::milliseconds;

struct RankScript {
    Duration lives{1000};  // until it ends by itself
    int wait_status = 0;   // as waitpid gives it
    bool raises = false;   // reports an exception first, and ends 100 ms later
    bool cannot_start = false;
    bool leaves_early = false;         // its peers miss it, though it ends in order
    std::optional<Duration> term{10};  // how long it takes to end at a TERM; nothing: it does not
    bool is_stuck = false;             // not even KILL ends it
    Duration notices{20};              // how long it takes to miss a peer
};

enum class HostFault : std::uint8_t {
    none,
    never_links,   // its agent never reports
    refuses,       // its agent cannot be started at all
    closes,        // the connection ends on both sides
    falls_silent,  // nothing passes any more, without an error
    agent_dies,    // kill -9; the guard ends the ranks
    is_drained,    // its agent gets a TERM
    speaks_another_version,
    sends_garbage,       // in the middle of its stream
    names_unknown_rank,  // which the plan does not have
};

/// The questions to agents before ranks start.
enum class Question : std::uint8_t { seek, pick_port, check };

struct HostScript {
    Duration handshake{300};
    Duration latency{2};  // the least; each message takes up to twice as long
    Duration clock_ahead{0};
    HostFault fault = HostFault::none;
    Duration fault_at{0};                      // of the job's start
    std::optional<Question> fault_instead_of;  // an answer to it, and not at `fault_at`
    std::optional<std::size_t> twin;           // an earlier host which is the same machine
    std::string problem;                       // that its preflight finds
    const char* build = "simulated";           // of its agent
    std::vector<RankScript> ranks;
};

struct Script {
    std::uint64_t seed = 0;
    std::vector<HostScript> hosts;
    Duration lease{2000};
    Duration grace{1000};
    Duration start_timeout{30'000};
    Duration link_silence{10'000};  // how long ranks take to miss peers behind a silent link
    launch::OnFailure on_failure = launch::OnFailure::stop;
    std::optional<Duration> interrupted_at;
    std::optional<Duration> starter_speaks_at;  // as srun does, which stays for the whole job
    std::size_t handshakes_in_flight = 512;
    std::optional<launch::PortSpan> ports;  // that are allowed
    int free_port = 29'500;                 // of them on the first host; 0: none is
};

/// A part of the product to leave out, so that a test can show that its absence is noticed.
struct Policy {
    bool has_lease = true;
    bool has_kill = true;
    bool tells_exits = true;  // else the first exit of a rank is not told
};

/// A job without faults, with so many ranks on each host.
[[nodiscard]] Script plain_script(std::size_t hosts, std::size_t ranks);

/// A job with up to two faults.
[[nodiscard]] Script draw_script(std::uint64_t seed);

}  // namespace hvd::sim
