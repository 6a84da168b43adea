// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/agent.hpp"

#include "launcher/agent/session.hpp"

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr int kFailed = 125;

}  // namespace

int run_agent(const AgentSetup& setup) {
    try {
        Session session(setup);
        return session.run();
    } catch (const std::exception& exception) {
        // The guard ends what we started.
        const auto text = std::string("hvd-agent: ") + exception.what() + "\n";
        (void)!::write(STDERR_FILENO, text.data(), text.size());
        return kFailed;
    }
}

}  // namespace hvd::launch::agent
