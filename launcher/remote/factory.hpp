// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/remote/starter.hpp"

#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>

namespace hvd::launch {

class IoThread;

/// What starters need to know of this process, read once by the spine.
struct StarterContext {
    std::filesystem::path program;               // where horovodrun itself lies
    std::optional<std::filesystem::path> agent;  // HOROVOD_AGENT: this file and no other
    sigset_t signal_mask{};                      // as horovodrun was given it
};

/// Starts the agent on this machine, as a child of horovodrun.
[[nodiscard]] std::unique_ptr<Starter> make_local_starter(IoThread& io, StarterContext context);

}  // namespace hvd::launch
