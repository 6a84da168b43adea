// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/factory.hpp"
#include "launcher/remote/local/local_channel.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

constexpr int kPipeBytes = 1 << 20;

struct Pipe {
    UniqueFd read;
    UniqueFd write;
};

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return system_error("pipe", errno);
    }
    return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// Runs in the child between vfork and exec: system calls only, on memory shared with the parent.
/// Returns errno of the call that failed.
int become_agent(const char* path, int child_stdin, int child_stdout, const sigset_t& mask) {
    std::array<char, 10> name{"hvd-agent"};
    const std::array<char*, 2> argv{name.data(), nullptr};
    // A session of its own from the start: Ctrl-C at our terminal is ours alone, and reaches the
    // ranks once, through us. (dup2 of a descriptor onto itself would leave it close-on-exec, but
    // the standard ones are open, so no pipe has their numbers.)
    if (::setsid() < 0 || ::dup2(child_stdin, STDIN_FILENO) < 0 ||
        ::dup2(child_stdout, STDOUT_FILENO) < 0 ||
        ::pthread_sigmask(SIG_SETMASK, &mask, nullptr) != 0) {
        return errno;
    }
    ::execve(path, argv.data(), environ);
    return errno;
}

/// Not posix_spawn: glibc's leaves two real-time signals ignored in the child, and so in every
/// rank, which is to have the dispositions that horovodrun was given.
Result<pid_t> spawn(const std::string& path,
                    int child_stdin,
                    int child_stdout,
                    const sigset_t& mask) {
    volatile int failure = 0;
    const auto* file = path.c_str();
    // NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): the child only calls the kernel
    const pid_t pid = ::vfork();
    if (pid == 0) {
        failure = become_agent(file, child_stdin, child_stdout, mask);
        ::_exit(1);
    }
    if (pid < 0) {
        return system_error("vfork", errno);
    }
    if (failure != 0) {
        while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
        return system_error(path, failure);
    }
    return pid;
}

class LocalStarter final : public Starter {
public:
    LocalStarter(IoThread& io, StarterContext context) : io_(io), context_(std::move(context)) {}

    [[nodiscard]] std::string_view name() const noexcept override { return "local"; }

    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& host) override {
        HVD_TRY(auto to_agent, make_pipe());
        HVD_TRY(auto from_agent, make_pipe());
        // More output per read; an unprivileged user may be refused, which only costs speed.
        (void)::fcntl(from_agent.read.get(), F_SETPIPE_SZ, kPipeBytes);

        HVD_TRY(const auto path, find_agent(host));
        HVD_TRY(const auto pid,
                spawn(path, to_agent.read.get(), from_agent.write.get(), context_.signal_mask));

        // The child cannot be reaped before we do it, so its number is still its own.
        UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
        if (!pidfd) {
            return system_error("pidfd_open", errno);
        }
        return std::unique_ptr<AgentChannel>(std::make_unique<LocalChannel>(
            io_, LocalChannel::Parts{.to_agent = std::move(to_agent.write),
                                     .from_agent = std::move(from_agent.read),
                                     .pidfd = std::move(pidfd),
                                     .pid = pid}));
    }

private:
    [[nodiscard]] std::vector<std::string> candidates() const {
        if (context_.agent) {
            return {context_.agent->string()};
        }
        const auto folder = context_.program.parent_path();
        return {(folder.parent_path() / "libexec" / "horovod" / "hvd-agent").string(),
                (folder / "hvd-agent").string()};
    }

    [[nodiscard]] Result<std::string> find_agent(const Host& host) const {
        std::string tried;
        for (const auto& path : candidates()) {
            if (::access(path.c_str(), X_OK) == 0) {
                return path;
            }
            tried += (tried.empty() ? "" : "; ") + system_error(path, errno).message;
        }
        return Error{
            Errc::unavailable,
            "cannot start the agent on " + host.name + ": " + tried +
                (context_.agent ? "; HOROVOD_AGENT names this file: correct it or unset it"
                                : "; reinstall horovod, or name the file in HOROVOD_AGENT")};
    }

    IoThread& io_;
    StarterContext context_;
};

}  // namespace

std::unique_ptr<Starter> make_local_starter(IoThread& io, StarterContext context) {
    return std::make_unique<LocalStarter>(io, std::move(context));
}

}  // namespace hvd::launch
