// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/command/child_process.hpp"

#include "launcher/remote/open_files.hpp"
#include "launcher/remote/pipe.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

/// Runs in the child between vfork and exec: system calls only, on memory shared with the parent.
/// Returns errno of the call that failed.
int become(const std::vector<char*>& argv,
           char* const* environment,
           const std::array<int, 3>& streams,
           const sigset_t& signal_mask) {
    if (::setsid() < 0) {
        return errno;
    }
    for (int number = 0; number < 3; ++number) {
        if (::dup2(streams[static_cast<std::size_t>(number)], number) < 0) {
            return errno;
        }
    }
    if (const int error = ::pthread_sigmask(SIG_SETMASK, &signal_mask, nullptr); error != 0) {
        return error;
    }
    restore_open_files();
    ::execvpe(argv.front(), argv.data(), environment);
    return errno;
}

/// For the kernel: pointers into `words`, and a null one.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (auto& word : words) {
        pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    return pointers;
}

}  // namespace

Result<ChildProcess> spawn_child(const std::vector<std::string>& argv,
                                 const sigset_t& signal_mask,
                                 const Environment* environment) {
    HVD_TRY(auto input, make_pipe());
    HVD_TRY(auto output, make_pipe());
    HVD_TRY(auto errors, make_pipe());
    HVD_TRY(auto report, make_pipe());  // carries errno, or ends with exec
    const std::array<int, 3> streams{input.read.get(), output.write.get(), errors.write.get()};
    std::vector<std::string> words = argv;
    const auto pointers = pointers_to(words);
    std::vector<std::string> entries;
    if (environment != nullptr) {
        for (const auto& [name, value] : *environment) {
            entries.push_back(name + "=" + value);
        }
    }
    const auto variables = pointers_to(entries);
    // NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): the child only calls the kernel
    const pid_t pid = ::vfork();
    if (pid == 0) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Vfork): it only calls the kernel
        const int error = become(pointers, environment == nullptr ? ::environ : variables.data(),
                                 streams, signal_mask);
        (void)!::write(report.write.get(), &error, sizeof error);
        ::_exit(1);
    }
    if (pid < 0) {
        return system_error("vfork", errno);
    }
    report.write.reset();
    int failure = 0;
    while (::read(report.read.get(), &failure, sizeof failure) < 0 && errno == EINTR) {
    }
    if (failure != 0) {
        while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
        return Error{Errc::unavailable, system_error(argv.front(), failure).message};
    }
    // The child cannot be reaped before we do it, so its number is still its own.
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd) {
        const int error = errno;
        (void)::kill(-pid, SIGKILL);
        (void)::waitpid(pid, nullptr, 0);
        return system_error("pidfd_open", error);
    }
    return ChildProcess{.input = std::move(input.write),
                        .output = std::move(output.read),
                        .errors = std::move(errors.read),
                        .pidfd = std::move(pidfd),
                        .pid = pid};
}

}  // namespace hvd::launch
