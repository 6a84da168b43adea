// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/local/local_channel.hpp"

#include "collectives/base/pidfd.hpp"
#include "collectives/base/text.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <utility>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

/// How long a guard may go on ending processes after its agent's stream has closed. It kills with
/// SIGKILL after half a second; what that does not end, waiting longer would not end either.
constexpr auto kGuardTimeout = std::chrono::seconds(3);

std::optional<Error> describe_end(int wait_status) {
    if (WIFSIGNALED(wait_status)) {
        return Error{Errc::unavailable,
                     "its guard process was killed by " + signal_name(WTERMSIG(wait_status))};
    }
    if (WEXITSTATUS(wait_status) != 0) {
        return Error{Errc::unavailable,
                     "it ended with status " + std::to_string(WEXITSTATUS(wait_status))};
    }
    return std::nullopt;
}

}  // namespace

LocalChannel::LocalChannel(IoThread& io, AgentProcess agent)
    : writer_(io, std::move(agent.to_agent)),
      reader_(io, std::move(agent.from_agent)),
      process_(io, std::move(agent.pidfd)),
      timeout_(io),
      pid_(agent.pid) {}

LocalChannel::~LocalChannel() {
    if (!process_over_) {
        // After a lease that is over the guard kills an agent that hangs, with all it has.
        pollfd ended{.fd = process_.fd(), .events = POLLIN, .revents = 0};
        while (::poll(&ended, 1, closed_.poll_timeout_ms()) < 0 && errno == EINTR) {
        }
        // It was given its time; with its guard gone the agent ends too.
        kill();
        (void)::waitpid(pid_, nullptr, 0);
    }
}

void LocalChannel::open(Handlers handlers) {
    handlers_ = std::move(handlers);
    reader_.start(
        {.on_bytes =
             [this](std::span<const std::byte> bytes) {
                 has_spoken_ = true;
                 handlers_.on_bytes(bytes);
             },
         .on_end = [this](std::optional<Error> error) { stream_ended(std::move(error)); }});
    process_.wait([this] { reap(); });
}

void LocalChannel::send(std::vector<std::byte> bytes) {
    writer_.send(std::move(bytes));
}

void LocalChannel::when_sent(std::function<void()> sent) {
    writer_.when_sent(std::move(sent));
}

void LocalChannel::close() {
    closed_ = Deadline::in(kGuardTimeout);
    writer_.close();
    if (!has_spoken_ && !process_over_) {
        kill();
    }
}

void LocalChannel::kill() const {
    (void)send_signal_by(process_.fd(), pid_, SIGKILL);
}

void LocalChannel::stream_ended(std::optional<Error> error) {
    stream_over_ = true;
    if (error && !error_) {
        error_ = std::move(error);
    }
    // The guard cleans up after an agent that died, without waiting for the launcher.
    writer_.close();
    timeout_.set(Deadline::in(kGuardTimeout), [this] {
        error_ =
            Error{Errc::unavailable, "its guard process " + std::to_string(pid_) + " does not end"};
        process_over_ = true;
        finish_if_over();
    });
    finish_if_over();
}

void LocalChannel::reap() {
    int status = 0;
    pid_t reaped = 0;
    do {
        reaped = ::waitpid(pid_, &status, WNOHANG);
    } while (reaped < 0 && errno == EINTR);
    if (reaped == 0) {
        process_.wait([this] { reap(); });
        return;
    }
    if (auto error = describe_end(status); reaped == pid_ && error && !error_) {
        error_ = std::move(error);
    }
    process_over_ = true;
    finish_if_over();
}

void LocalChannel::finish_if_over() {
    if (stream_over_ && process_over_) {
        timeout_.cancel();
        tell();
    }
}

void LocalChannel::tell() {
    if (!std::exchange(told_, true)) {
        handlers_.on_end(std::move(error_));
    }
}

}  // namespace hvd::launch
