// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/supervise/job_record.hpp"
#include "launcher/supervise/job_result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch {

/// The culprit, and the outcome of each rank that follows from it.
struct Verdict {
    int exit_code = 0;
    Reason reason = Reason::none;
    std::optional<int> culprit;      // a rank
    std::optional<HostLoss> lost;    // the host that is to blame instead
    bool is_launcher = false;        // mpirun is to blame
    int step_signal = 0;             // of Slurm, by which the ranks have ended; 0: none
    std::vector<RankClass> classes;  // indexed by rank

    friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// Judges from everything that is known at the end, not from who was seen to end first.
///
/// The culprit is the rank whose failure has the earliest cause. A rank that reported the loss of a
/// peer is no candidate. An exception counts from when it was reported, however long teardown took;
/// an exit that we caused counts only when something else than our TERM or KILL ended the rank; a
/// clean exit counts when a peer reports that it missed that rank; the loss of a host counts from
/// its last word, or from when its agent was told to leave, which may have ended ranks there too.
[[nodiscard]] Verdict judge(const JobRecord& record);

/// By how many nanoseconds the culprit and the ranks that failed as it did were ahead of the next
/// that failed by itself. Nothing where there is none: who lost a peer, or was ended by us, does
/// not count.
[[nodiscard]] std::optional<std::int64_t> find_lead(const JobRecord& record,
                                                    const Verdict& verdict);

/// "exit 3", "signal SIGSEGV", "out of memory", "cannot execute: ./train: No such file ...".
/// `rank` is the verdict's culprit.
[[nodiscard]] std::string describe_failure(const RankRecord& rank, const Verdict& verdict);

}  // namespace hvd::launch
