// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/agent.hpp"

#include "launcher/agent/session.hpp"

#include <cstdio>
#include <exception>
#include <string_view>

#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr int kFailed = 125;

}  // namespace

void complain(std::string_view text) noexcept {
    (void)::dprintf(STDERR_FILENO, "hvd-agent: %.*s\n", static_cast<int>(text.size()), text.data());
}

int run_agent(const AgentSetup& setup) {
    try {
        Session session(setup);
        const int exit_code = session.run();
        // Nothing is left to save, and the kernel frees all of it at once: horovodrun waits for us.
        ::_exit(exit_code);
    } catch (const std::exception& exception) {
        // The guard ends what we started.
        complain(exception.what());
        return kFailed;
    }
}

}  // namespace hvd::launch::agent
