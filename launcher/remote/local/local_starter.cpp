// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/factory.hpp"
#include "launcher/remote/local/local_channel.hpp"

#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
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

/// The attributes of the child, released again whatever happens.
class SpawnSetup final {
public:
    SpawnSetup(int child_stdin, int child_stdout, const sigset_t& mask) {
        ::posix_spawn_file_actions_init(&actions_);
        ::posix_spawnattr_init(&attributes_);
        ::posix_spawn_file_actions_adddup2(&actions_, child_stdin, STDIN_FILENO);
        ::posix_spawn_file_actions_adddup2(&actions_, child_stdout, STDOUT_FILENO);
        ::posix_spawnattr_setsigmask(&attributes_, &mask);
        // A session of its own from the start: Ctrl-C at our terminal is ours alone, and reaches
        // the ranks once, through us.
        ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
    }
    SpawnSetup(const SpawnSetup&) = delete;
    SpawnSetup& operator=(const SpawnSetup&) = delete;
    ~SpawnSetup() {
        ::posix_spawn_file_actions_destroy(&actions_);
        ::posix_spawnattr_destroy(&attributes_);
    }

    [[nodiscard]] int spawn(pid_t& pid, const std::string& path) const {
        std::string name = "hvd-agent";
        const std::array<char*, 2> argv{name.data(), nullptr};
        return ::posix_spawn(&pid, path.c_str(), &actions_, &attributes_, argv.data(), environ);
    }

private:
    posix_spawn_file_actions_t actions_{};
    posix_spawnattr_t attributes_{};
};

class LocalStarter final : public Starter {
public:
    LocalStarter(IoThread& io, StarterContext context) : io_(io), context_(std::move(context)) {}

    [[nodiscard]] std::string_view name() const noexcept override { return "local"; }

    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& host) override {
        HVD_TRY(auto to_agent, make_pipe());
        HVD_TRY(auto from_agent, make_pipe());
        // More output per read; an unprivileged user may be refused, which only costs speed.
        (void)::fcntl(from_agent.read.get(), F_SETPIPE_SZ, kPipeBytes);

        const SpawnSetup setup(to_agent.read.get(), from_agent.write.get(), context_.signal_mask);
        HVD_TRY(const auto pid, spawn_first(setup, host));

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

    [[nodiscard]] Result<pid_t> spawn_first(const SpawnSetup& setup, const Host& host) const {
        std::string tried;
        for (const auto& path : candidates()) {
            pid_t pid = 0;
            const int error = setup.spawn(pid, path);
            if (error == 0) {
                return pid;
            }
            tried += (tried.empty() ? "" : "; ") + system_error(path, error).message;
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
