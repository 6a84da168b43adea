// SPDX-License-Identifier: Apache-2.0
//
// How a job ended: what horovodrun prints last, writes to --summary and exits with.
#pragma once

#include "launcher/model/survivor.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch {

/// The "reason" of the summary; `none` when the job succeeded.
enum class Reason : std::uint8_t {
    none,
    exit,         // the culprit exited with a status other than 0
    signal,       // a signal ended the culprit
    oom,          // the kernel killed the culprit for want of memory
    exec,         // the command could not be executed
    host_lost,    // an agent is gone; the exit code is 125
    start,        // the job could not be started, or not within --start-timeout
    timeout,      // --timeout, --exit-timeout
    left_early,   // the culprit exited with 0 while others waited for it
    stalled,      // others have given up waiting for the culprit, which lives: in hvd.init()
                  // (HOROVOD_START_TIMEOUT), or later (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)
    interrupted,  // horovodrun was asked to stop, or its standard output was closed
};

enum class RankClass : std::uint8_t {
    ok,           // exit 0
    culprit,      // failed first, by itself
    same,         // failed as the culprit did
    also_failed,  // failed by itself, after the culprit
    stopped,      // ended because we told it to, or never ran
    lost_peer,    // said that it failed because a peer went away
    lost_host,    // its host was lost before it ended
};

struct RankResult {
    int rank = 0;
    std::string host;
    int local_rank = 0;
    int pid = 0;  // 0: never started
    std::optional<int> exit_code;
    std::optional<int> signal;
    RankClass rank_class = RankClass::ok;
    double seconds = 0;
    std::uint64_t max_rss_bytes = 0;
};

struct Culprit {
    RankResult rank;
    std::string what;     // "exit 3", "signal SIGSEGV", "out of memory", "cannot execute: ..."
    std::string message;  // the last line of what the rank itself reported; often empty
    std::vector<std::string> stderr_tail;
    int failed_ranks = 1;                   // with all that failed by themselves
    std::optional<double> lead_seconds{};   // to the next that failed otherwise; empty: none did
    std::vector<int> same_ranks{};          // others that failed as it did
    std::vector<std::string> same_notes{};  // what the first of these did, where that differs
};

/// The program that has started the ranks.
struct LauncherResult {
    std::string line;
    std::string hidden_line;  // without arguments and variables, which may be secrets
    RankResult process;
};

struct HostResult {
    std::string host;
    std::string state;  // "ok" or "lost"
    std::string error;
};

/// A survivor of a host.
struct HostSurvivor {
    std::string host;
    Survivor process;
};

/// A lost host that could not be searched for processes of the job.
struct UnsweptHost {
    std::string host;
    std::string why;
};

struct JobResult {
    std::string job_id;
    int exit_code = 0;
    Reason reason = Reason::none;
    double seconds = 0;
    std::string sentence;  // what to say where no rank is to blame
    std::optional<Culprit> culprit;
    std::optional<std::string> lost_host;  // the culprit where no rank is
    std::optional<LauncherResult> launcher;
    std::vector<RankResult> ranks;
    std::vector<HostResult> hosts;
    std::vector<HostSurvivor> survivors;
    std::vector<UnsweptHost> unswept;
    std::vector<std::string> warnings;  // output that was lost

    [[nodiscard]] bool is_success() const noexcept { return exit_code == 0; }
};

}  // namespace hvd::launch
