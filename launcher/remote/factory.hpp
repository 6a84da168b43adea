// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/remote/starter.hpp"

#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

namespace hvd::launch {

class IoThread;
class EarlyAgent;

/// What starters need to know of this process, read once by the spine.
struct StarterContext {
    std::filesystem::path program;               // where horovodrun itself lies
    std::optional<std::filesystem::path> agent;  // HOROVOD_AGENT: this file and no other
    sigset_t signal_mask{};                      // as horovodrun was given it
};

struct EndEarlyAgent {
    void operator()(EarlyAgent* agent) const;
};

/// An agent on this machine that was started before it was known whether one is wanted: it comes up
/// while the command line is read, which takes as long. Unused it ends with its owner.
using EarlyAgentPtr = std::unique_ptr<EarlyAgent, EndEarlyAgent>;

/// Forks the agent off this process, which saves the start of a program. To be called first of all,
/// while there is one thread and no descriptor of ours. The child overwrites `command_line`, the
/// memory in which main was given its arguments, with its own name.
[[nodiscard]] EarlyAgentPtr start_early_agent(std::span<char> command_line);

/// Starts the agent on this machine, as a child of horovodrun; takes `early` where there is one.
[[nodiscard]] std::unique_ptr<Starter> make_local_starter(IoThread& io,
                                                          StarterContext context,
                                                          EarlyAgentPtr early = nullptr);

}  // namespace hvd::launch
