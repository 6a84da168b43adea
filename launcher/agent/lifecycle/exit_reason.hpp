// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/wire/messages.hpp"

#include <optional>
#include <string>

namespace hvd::launch::agent {

/// Why an agent that joined a job leaves it, for the program that started the agent.
struct ExitReason {
    int stop_signal = 0;                   // the agent itself got it
    std::optional<wire::Ended> job_end{};  // as the launcher told it

    [[nodiscard]] bool is_known() const noexcept { return stop_signal != 0 || job_end; }
    [[nodiscard]] int exit_code() const;
    [[nodiscard]] std::string text() const;
};

}  // namespace hvd::launch::agent
