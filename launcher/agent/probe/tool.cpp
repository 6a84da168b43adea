// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/tool.hpp"

#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/processes/environment_block.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kMaxOutput = std::size_t{1} << 20;

/// Reads until the helper closes its output.
Result<std::string> read_output(int output, int launcher, Deadline deadline) {
    std::string text;
    while (true) {
        std::array<pollfd, 2> ready{{{.fd = output, .events = POLLIN, .revents = 0},
                                     {.fd = launcher, .events = POLLRDHUP, .revents = 0}}};
        const int count = ::poll(ready.data(), ready.size(), deadline.poll_timeout_ms());
        if (count < 0 && errno != EINTR) {
            return system_error("poll", errno);
        }
        if (count == 0) {
            return Error{Errc::timed_out, "it does not answer"};
        }
        if (ready[1].revents != 0) {
            return Error{Errc::aborted, "the launcher has gone"};
        }
        if (count < 0 || ready[0].revents == 0) {
            continue;
        }
        std::array<char, 4096> bytes{};
        const auto size = ::read(output, bytes.data(), bytes.size());
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size <= 0 || text.size() > kMaxOutput) {
            return text;
        }
        text.append(bytes.data(), static_cast<std::size_t>(size));
    }
}

/// Waits until the process has ended, or the deadline.
std::optional<int> await_end(pid_t pid, Deadline deadline) {
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    while (true) {
        int status = 0;
        const pid_t reaped = ::waitpid(pid, &status, WNOHANG);
        if (reaped == pid) {
            return status;
        }
        if (deadline.has_passed() || (reaped < 0 && errno != EINTR)) {
            return std::nullopt;
        }
        // Blocked by the guard, so that it is not lost between the two calls.
        constexpr long kNanosecondsPerMs = 1'000'000;
        const int left = deadline.poll_timeout_ms();
        const timespec time{.tv_sec = left / 1000, .tv_nsec = (left % 1000) * kNanosecondsPerMs};
        (void)::sigtimedwait(&child, nullptr, &time);
    }
}

}  // namespace

Result<std::string> run_tool(std::vector<std::string> argv,
                             const Inheritance& given,
                             int launcher,
                             Deadline deadline) {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return system_error("pipe", errno);
    }
    const UniqueFd output(ends[0]);
    UniqueFd input(ends[1]);
    const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));

    const auto program = argv.front();
    EnvironmentBlock ours(current_environment());
    EnvironmentBlock unchanged({});
    Spawner spawner(given);
    const auto spawned = spawner.spawn({.argv = std::move(argv),
                                        .cpus = {},
                                        .cwd = {},
                                        .in = nothing.get(),
                                        .out = input.get(),
                                        .err = nothing.get()},
                                       ours.with(unchanged), program);
    if (const auto* failure = std::get_if<SpawnFailure>(&spawned)) {
        return system_error(failure->step, failure->error_number);
    }
    const auto pid = std::get<pid_t>(spawned);
    input.reset();
    auto text = read_output(output.get(), launcher, deadline);
    std::optional<int> status;
    if (text) {
        status = await_end(pid, deadline);
    }
    if (!status) {
        // It may hang in its driver, where not even KILL ends it; then it is reaped at our end.
        constexpr auto kKillTimeout = std::chrono::milliseconds(100);
        (void)::kill(-pid, SIGKILL);
        (void)await_end(pid, Deadline::in(kKillTimeout));
        return text ? Result<std::string>(Error{Errc::timed_out, "it does not end"}) : text;
    }
    if (*status != 0) {
        return Error{Errc::unavailable, "it failed (wait status " + std::to_string(*status) + ")"};
    }
    return text;
}

}  // namespace hvd::launch::agent
