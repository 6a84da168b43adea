// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/vfork_child.hpp"

#include "collectives/base/argv.hpp"
#include "collectives/base/process_limit.hpp"
#include "launcher/remote/open_files.hpp"
#include "launcher/remote/pipe.hpp"

#include <cerrno>
#include <cstddef>

#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

/// Runs in the child between vfork and exec: system calls only, on memory shared with the parent.
/// Returns errno of the call that failed.
int become(const std::vector<char*>& argv, char* const* environment, const ChildOrder& order) {
    // A new session from the start: Ctrl-C at our terminal reaches us alone. (dup2 of a
    // descriptor onto itself would leave it close-on-exec, but no pipe has a number that low.)
    if (::setsid() < 0) {
        return errno;
    }
    int number = 0;
    for (const int stream : order.streams) {
        if (::dup2(stream, number++) < 0) {
            return errno;
        }
    }
    if (const int error = ::pthread_sigmask(SIG_SETMASK, &order.signal_mask, nullptr); error != 0) {
        return error;
    }
    restore_open_files();
    ::execvpe(order.file.c_str(), argv.data(), environment);
    return errno;
}

/// A separate function, because variables of a function that calls vfork may be lost. The child
/// writes the errno of a failure to `report`.
[[gnu::noinline]] pid_t start(const std::vector<char*>& argv,
                              char* const* environment,
                              const ChildOrder& order,
                              int report) {
    // NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): the child only calls the kernel
    const pid_t pid = ::vfork();
    if (pid == 0) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Vfork): it only calls the kernel
        const int error = become(argv, environment, order);
        [[maybe_unused]] const auto written = ::write(report, &error, sizeof error);
        ::_exit(1);
    }
    return pid;
}

}  // namespace

// Not posix_spawn: glibc's leaves two real-time signals ignored in the child, and so in every rank.
// The error comes by a pipe, not in shared memory, which TSan and the optimiser know nothing of.
Result<pid_t> spawn_by_vfork(const ChildOrder& order) {
    HVD_TRY(auto report, make_pipe());  // carries errno, or ends with exec
    std::vector<std::string> words = order.argv;
    const auto argv = pointers_to(words);
    std::vector<std::string> entries;
    if (order.environment != nullptr) {
        for (const auto& [name, value] : *order.environment) {
            auto& entry = entries.emplace_back(name);
            entry += '=';
            entry += value;
        }
    }
    const auto variables = pointers_to(entries);
    const pid_t pid = start(argv, order.environment == nullptr ? ::environ : variables.data(),
                            order, report.write.get());
    if (pid < 0) {
        return process_error("vfork", errno);
    }
    report.write.reset();
    int failure = 0;
    while (::read(report.read.get(), &failure, sizeof failure) < 0 && errno == EINTR) {
    }
    if (failure != 0) {
        while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
        return Error{Errc::unavailable, system_error(order.file, failure).message};
    }
    return pid;
}

}  // namespace hvd::launch
