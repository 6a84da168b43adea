// SPDX-License-Identifier: Apache-2.0
//
// The facts about a job as they came in, without any judgement. verdict.hpp judges.
#pragma once

#include "launcher/wire/messages.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hvd::launch {

/// The facts about one rank. All times are on the launcher's steady clock.
struct RankRecord {
    int rank = 0;
    int local_rank = 0;
    std::string host;
    std::optional<wire::Started> started;
    std::optional<wire::StartFailed> start_failed;
    std::optional<wire::Exited> exited;
    std::optional<wire::RankReport> exception;   // the first of its kind
    std::optional<wire::RankReport> peer_lost;   // the first of its kind
    std::optional<wire::RankReport> missed;      // the first of another rank that this one stalls
    std::optional<wire::RankActivity> activity;  // when it was missed in hvd.init()
    bool has_traceback = false;                  // of an exception, on its standard error

    [[nodiscard]] bool has_ended() const noexcept { return exited || start_failed; }

    friend bool operator==(const RankRecord&, const RankRecord&) = default;
};

/// A host whose agent is gone before it told that nothing of the job is left there, or that left
/// the job by itself.
struct HostLoss {
    std::string host;
    std::int64_t time_ns = 0;  // of our clock; when it was silent: since when
    std::string why;
    bool has_left = false;  // its agent has said so, and ended the ranks there after that
    int signal = 0;  // that told its agent to leave; ranks of the host may have got it as well

    friend bool operator==(const HostLoss&, const HostLoss&) = default;
};

/// Why the job began to end. The first cause stays.
struct Cause {
    enum class Kind : std::uint8_t {
        none,            // every rank came to its end by itself
        rank_failed,     // see the records
        interrupted,     // horovodrun was sent `signal`
        time_limit,      // --timeout
        start_limit,     // --start-timeout
        exit_limit,      // --exit-timeout
        host_lost,       // see the record
        console_closed,  // nobody reads our standard output any more
    };

    Kind kind = Kind::none;
    int signal = 0;

    friend bool operator==(const Cause&, const Cause&) = default;
};

struct JobRecord {
    std::vector<RankRecord> ranks;       // indexed by rank
    std::optional<RankRecord> launcher;  // mpirun, where it starts the ranks
    std::vector<HostLoss> lost_hosts;    // each once
    Cause cause;
    std::set<int> step_signals;  // that Slurm gave to the ranks by itself

    friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

}  // namespace hvd::launch
