// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace hvd::test {

/// How one forked rank ended.
struct RankEnd {
    int exit_code = -1;      // -1 when a signal ended it
    int signal = 0;          // 0 when it exited
    bool timed_out = false;  // killed by us at the time limit
    std::string output;      // standard output and standard error
};

/// Forks `size` ranks; each runs `body(rank)` and exits with its result, or with 99 and the
/// message when it throws. Returns when all have ended; those that live at the limit, which is
/// below that of ctest, are killed. Call it from a process of one thread.
[[nodiscard]] std::vector<RankEnd> run_ranks(int size,
                                             const std::function<int(int rank)>& body,
                                             std::chrono::seconds limit = std::chrono::seconds(55));

/// The ranks that did not exit with 0, with their output; empty when all did.
[[nodiscard]] std::string failures(const std::vector<RankEnd>& ends);

/// The same for ranks that are threads: the messages of those that threw or returned not 0.
[[nodiscard]] std::string run_thread_ranks(int size, const std::function<int(int rank)>& body);

/// A name for an abstract socket that nobody else uses.
[[nodiscard]] std::string unique_socket_name();

}  // namespace hvd::test
