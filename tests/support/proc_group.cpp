// SPDX-License-Identifier: Apache-2.0
#include "tests/support/proc_group.hpp"

#include "collectives/base/deadline.hpp"
#include "collectives/base/random_id.hpp"
#include "collectives/base/unique_fd.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::test {
namespace {

constexpr int kThrew = 99;

struct Child {
    pid_t pid = -1;
    UniqueFd pidfd;
    UniqueFd output;
    bool has_ended = false;
    RankEnd end;
};

[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

[[noreturn]] void be_rank(int rank, const std::function<int(int)>& body, int output) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)::dup2(output, STDOUT_FILENO);
    (void)::dup2(output, STDERR_FILENO);
    int code = kThrew;
    try {
        code = body(rank);
    } catch (const std::exception& exception) {
        std::fprintf(stderr, "rank %d: %s\n", rank, exception.what());
    }
    (void)std::fflush(nullptr);
    ::_exit(code);
}

[[nodiscard]] Child start(int rank, const std::function<int(int)>& body) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        fail("pipe2");
    }
    Child child;
    child.output = UniqueFd(ends[0]);
    const UniqueFd write_end(ends[1]);
    (void)std::fflush(nullptr);
    child.pid = ::fork();
    if (child.pid < 0) {
        fail("fork");
    }
    if (child.pid == 0) {
        be_rank(rank, body, write_end.get());
    }
    child.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));
    if (!child.pidfd) {
        fail("pidfd_open");
    }
    return child;
}

void read_some(Child& child) {
    std::array<char, 4096> bytes{};
    const auto size = ::read(child.output.get(), bytes.data(), bytes.size());
    if (size > 0) {
        child.end.output.append(bytes.data(), static_cast<std::size_t>(size));
    } else if (size == 0) {
        child.output.reset();
    }
}

void reap(Child& child) {
    int status = 0;
    if (::waitpid(child.pid, &status, 0) != child.pid) {
        fail("waitpid");
    }
    child.has_ended = true;
    if (WIFEXITED(status)) {
        child.end.exit_code = WEXITSTATUS(status);
    } else {
        child.end.signal = WTERMSIG(status);
    }
}

/// One round of waiting for output and ends. False: nothing is left to wait for.
bool wait_for_some(std::vector<Child>& children, Deadline deadline) {
    std::vector<pollfd> ready;
    bool is_any_left = false;
    for (const auto& child : children) {
        is_any_left = is_any_left || !child.has_ended || child.output;
        ready.push_back({child.output.get(), POLLIN, 0});
        ready.push_back({child.has_ended ? -1 : child.pidfd.get(), POLLIN, 0});
    }
    if (!is_any_left) {
        return false;
    }
    (void)::poll(ready.data(), ready.size(), deadline.poll_timeout_ms());
    for (std::size_t index = 0; index < children.size(); ++index) {
        if (ready[2 * index].revents != 0) {
            read_some(children[index]);
        }
        if (ready[2 * index + 1].revents != 0) {
            reap(children[index]);
        }
    }
    return true;
}

}  // namespace

std::vector<RankEnd> run_ranks(int size,
                               const std::function<int(int rank)>& body,
                               std::chrono::seconds limit) {
    const auto deadline = Deadline::in(limit);
    std::vector<Child> children;
    for (int rank = 0; rank < size; ++rank) {
        children.push_back(start(rank, body));
    }
    while (!deadline.has_passed() && wait_for_some(children, deadline)) {
    }
    std::vector<RankEnd> ends;
    for (auto& child : children) {
        if (!child.has_ended) {
            child.end.timed_out = true;
            (void)::syscall(SYS_pidfd_send_signal, child.pidfd.get(), SIGKILL, nullptr, 0);
            reap(child);
        }
        ends.push_back(std::move(child.end));
    }
    return ends;
}

std::string failures(const std::vector<RankEnd>& ends) {
    std::string text;
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
        const auto& end = ends[rank];
        if (end.exit_code == 0) {
            continue;
        }
        text += "rank " + std::to_string(rank);
        if (end.timed_out) {
            text += " was killed at the time limit";
        } else if (end.signal != 0) {
            text += " ended by signal " + std::to_string(end.signal);
        } else {
            text += " exited with " + std::to_string(end.exit_code);
        }
        text += ": " + end.output + "\n";
    }
    return text;
}

std::string run_thread_ranks(int size, const std::function<int(int rank)>& body) {
    std::vector<std::string> messages(static_cast<std::size_t>(size));
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < size; ++rank) {
            threads.emplace_back(
                [rank, &body, &message = messages[static_cast<std::size_t>(rank)]] {
                    try {
                        const int code = body(rank);
                        if (code != 0) {
                            message = "returned " + std::to_string(code);
                        }
                    } catch (const std::exception& exception) {
                        message = exception.what();
                    }
                });
        }
    }
    std::string text;
    for (std::size_t rank = 0; rank < messages.size(); ++rank) {
        if (!messages[rank].empty()) {
            text += "rank " + std::to_string(rank) + ": " + messages[rank] + "\n";
        }
    }
    return text;
}

std::string unique_socket_name() {
    return "hvd-test-" + random_id().value();  // a process id is unique in its namespace only
}

}  // namespace hvd::test
