// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/agent.hpp"

#include "launcher/agent/lifecycle/session.hpp"
#include "launcher/model/exit_code.hpp"

#include <array>
#include <exception>
#include <string_view>

#include <sys/uio.h>
#include <unistd.h>

namespace hvd::launch::agent {
/// Not by dprintf, whose buffer is lost where standard error is closed, as the guard's is.
void print_error(std::string_view text) noexcept {
    const auto part = [](std::string_view words) {
        // writev only reads, but its type does not say so.
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
        return iovec{.iov_base = const_cast<char*>(words.data()), .iov_len = words.size()};
    };
    const std::array<iovec, 3> line{part("hvd-agent: "), part(text), part("\n")};
    (void)::writev(STDERR_FILENO, line.data(), static_cast<int>(line.size()));
}

int run_agent(const AgentSetup& setup) {
    try {
        Session session(setup);
        // Nothing is left to save, and the kernel frees all of it at once: horovodrun waits for us.
        ::_exit(session.run());
    } catch (const std::exception& exception) {
        // The guard ends what we started.
        print_error(exception.what());
        return kExitLauncherFailure;
    }
}

}  // namespace hvd::launch::agent
