// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/remote/factory.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace hvd::test {

/// How a start went.
struct Outcome {
    bool has_reported = false;  // the agent's Hello and facts came
    std::string hostname;       // of the agent
    int pongs = 0;
    bool has_ended = false;
    std::optional<Error> error;
};

struct Linked {
    std::vector<Outcome> hosts;
    std::vector<std::string> notes;  // "host: sentence"
    std::chrono::milliseconds took{};
};

/// The first host's error, or "".
[[nodiscard]] std::string words(const Linked& linked);

/// Starts an agent on each host, waits for its facts and `pings` answers, one after the other, ends
/// it, and waits for its end. Whatever has not ended after `timeout` is given up.
[[nodiscard]] Linked link(const std::vector<launch::Host>& hosts,
                          launch::SshTask task,
                          std::chrono::milliseconds timeout = std::chrono::seconds(20),
                          int pings = 0);

/// The one host's outcome; `remote_shell` as --remote-shell.
[[nodiscard]] Outcome link_through(const std::string& remote_shell);

}  // namespace hvd::test
