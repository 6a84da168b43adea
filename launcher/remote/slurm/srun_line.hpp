// SPDX-License-Identifier: Apache-2.0
//
// How srun starts an agent on each node of an allocation. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch {

/// A task of srun prints this line to request the agent, which then follows the token on its
/// standard input.
inline constexpr const char* kSrunSend = "HVDSRUN1 send\n";

struct SrunOrder {
    std::string job_id;
    std::optional<std::size_t> component{};  // of a heterogeneous job
    std::vector<std::string> nodes;
    /// How many tasks each node gets, of which the first becomes its agent and the others leave at
    /// once: a step has the GPUs of its tasks where the job asked for them by task. Empty: one.
    std::vector<int> tasks{};

    // The agent.
    std::string file;      // where it lies here, and so perhaps there
    std::string build_id;  // what it prints with --version
    std::size_t bytes = 0;

    // The agent connects to the address that Slurm has for us, then to these in turn; IPv6 in
    // brackets.
    int port = 0;
    std::vector<std::string> addresses;
    std::chrono::milliseconds timeout{30'000};
};

/// The program and its arguments. srun sends its standard input to every task: one line with the
/// token, then, for tasks that ask (kSrunSend), `bytes` of the agent. No secret is in the line.
[[nodiscard]] std::vector<std::string> srun_line(const SrunOrder& order);

}  // namespace hvd::launch
