// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/spawner.hpp"

#include "collectives/base/error.hpp"
#include "launcher/agent/processes/affinity.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include <linux/sched.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// The child runs in our memory until it executes its program: what a sanitizer notes about it would
// be noted about us.
#if defined(HVD_SANITIZE_ADDRESS) || defined(HVD_SANITIZE_THREAD)
#define HVD_UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined")))
#else
#define HVD_UNCHECKED
#endif

namespace hvd::launch::agent {
namespace {

enum class Step : std::uint8_t {
    none,
    agent_gone,
    setpgid,
    setsid,
    pdeathsig,
    affinity,
    limits,
    streams,
    terminal,
    chdir,
    signals,
    exec,
};

std::string describe(Step step, const SpawnRequest& request, const std::string& program) {
    switch (step) {
        case Step::none: return "";
        case Step::agent_gone: return "getppid";
        case Step::setpgid: return "setpgid";
        case Step::setsid: return "setsid";
        case Step::pdeathsig: return "prctl PR_SET_PDEATHSIG";
        case Step::affinity: return "sched_setaffinity";
        case Step::limits: return "setrlimit";
        case Step::streams: return "dup2";
        case Step::terminal: return "ioctl TIOCSCTTY";
        case Step::chdir: return "chdir " + request.cwd;
        case Step::signals: return "sigprocmask";
        case Step::exec: return "execve " + program;
    }
    return "";
}

}  // namespace

void make_room(Inheritance& given, std::size_t descriptors) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= descriptors) {
        return;
    }
    if (!given.open_files) {
        given.open_files = limit;
    }
    limit.rlim_cur = std::min<rlim_t>(descriptors, limit.rlim_max);
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Written by the child.
struct Spawner::Result {
    volatile bool has_begun = false;
    volatile Step failed = Step::none;
    volatile int error_number = 0;
};

/// Everything the child needs, prepared before it exists.
struct Spawner::Child {
    const char* program = nullptr;
    char* const* argv = nullptr;
    char* const* shell_argv = nullptr;  // for a script without `#!`, as execvp runs it
    char* const* environment = nullptr;
    const char* cwd = nullptr;      // or none
    const CpuMask* cpus = nullptr;  // or none
    int in = -1;
    int out = -1;
    int err = -1;
    bool has_terminal = false;
    pid_t agent = 0;
    const Inheritance* given = nullptr;
    const rlimit* open_files = nullptr;  // or none
    Result* result = nullptr;            // in memory that both share
};

Spawner::Spawner(const Inheritance& given, int cgroup)
    : given_(given),
      agent_(::getpid()),
      cgroup_(cgroup),
      stack_(std::make_unique_for_overwrite<Stack>()) {
    void* page =
        ::mmap(nullptr, sizeof(Result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        throw Exception(system_error("mmap", errno));
    }
    result_.reset(static_cast<Result*>(page));
}

void Spawner::Unmap::operator()(Result* result) const noexcept {
    (void)::munmap(result, sizeof(Result));
}

// Between here and the program only async-signal-safe calls: our memory is borrowed.
HVD_UNCHECKED int Spawner::run_child(void* argument) {
    auto& child = *static_cast<Child*>(argument);
    child.result->has_begun = true;
    const auto fail = [&child](Step step) {
        child.result->error_number = errno;
        child.result->failed = step;
        ::_exit(127);
    };
    if (child.has_terminal) {
        if (::setsid() < 0) {
            fail(Step::setsid);
        }
    } else if (::setpgid(0, 0) != 0) {
        fail(Step::setpgid);
    }
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        fail(Step::pdeathsig);
    }
    if (::getppid() != child.agent) {
        errno = ECHILD;
        fail(Step::agent_gone);
    }
    if (child.cpus != nullptr && !child.cpus->pin()) {
        fail(Step::affinity);
    }
    if (::dup2(child.in, STDIN_FILENO) < 0 || ::dup2(child.out, STDOUT_FILENO) < 0 ||
        ::dup2(child.err, STDERR_FILENO) < 0) {
        fail(Step::streams);
    }
    if (child.has_terminal && ::ioctl(STDIN_FILENO, TIOCSCTTY, 0) != 0) {
        fail(Step::terminal);
    }
    if (child.open_files != nullptr && ::setrlimit(RLIMIT_NOFILE, child.open_files) != 0) {
        fail(Step::limits);
    }
    if (child.cwd != nullptr && ::chdir(child.cwd) != 0) {
        fail(Step::chdir);
    }
    if (child.given->ignores_sigchld) {
        struct sigaction ignore {};
        ignore.sa_handler = SIG_IGN;
        (void)::sigaction(SIGCHLD, &ignore, nullptr);
    }
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread, here and in the agent
    if (::sigprocmask(SIG_SETMASK, &child.given->signal_mask, nullptr) != 0) {
        fail(Step::signals);
    }
    ::execve(child.program, child.argv, child.environment);
    if (errno == ENOEXEC) {
        ::execve("/bin/sh", child.shell_argv, child.environment);
    }
    fail(Step::exec);
    return 0;
}

/// vfork with a stack of the child's own: it cannot overwrite what the compiler keeps on ours. Into
/// a cgroup, where the C library has no call that shares memory, like fork.
pid_t Spawner::start(Child& child) {
    if (cgroup_ >= 0) {
        clone_args how{};
        how.flags = CLONE_VFORK | CLONE_INTO_CGROUP;
        how.exit_signal = SIGCHLD;
        how.cgroup = static_cast<std::uint64_t>(cgroup_);
        const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
        if (pid == 0) {
            run_child(&child);
        }
        const bool has_failed = pid < 0 && (errno == EAGAIN || errno == ENOMEM);
        if (has_failed || (pid > 0 && child.result->has_begun)) {
            return pid;
        }
        // A seccomp filter, no right to, a cgroup that takes no processes. Or the child was killed
        // at birth: Linux 6.14 and later may, where our own cgroup was once killed as a whole.
        cgroup_ = -1;
        while (pid > 0 && ::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
    return ::clone(&Spawner::run_child, stack_->data() + stack_->size(),
                   CLONE_VM | CLONE_VFORK | SIGCHLD, &child);
}

std::variant<pid_t, SpawnFailure> Spawner::spawn(SpawnRequest request,
                                                 const std::vector<char*>& environment,
                                                 const std::string& program) {
    std::vector<char*> argv;
    std::string shell = "sh";
    std::string script = program;
    std::vector<char*> shell_argv{shell.data(), script.data()};
    for (auto& word : request.argv) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    shell_argv.insert(shell_argv.end(), std::next(argv.begin()), argv.end());

    const CpuMask cpus(request.cpus);

    Child child;
    child.program = program.c_str();
    child.argv = argv.data();
    child.shell_argv = shell_argv.data();
    child.environment = environment.data();
    child.cwd = request.cwd.empty() ? nullptr : request.cwd.c_str();
    child.cpus = request.cpus.empty() ? nullptr : &cpus;
    child.in = request.in;
    child.out = request.out;
    child.err = request.err;
    child.has_terminal = request.has_terminal;
    child.agent = agent_;
    child.given = &given_;
    child.open_files = given_.open_files ? &*given_.open_files : nullptr;

    *result_ = {};
    child.result = result_.get();
    const pid_t pid = start(child);
    if (pid < 0) {
        return SpawnFailure{.step = "vfork", .error_number = errno};
    }
    if (result_->failed != Step::none) {
        while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
        auto step = describe(result_->failed, request, request.argv.front());
        if (result_->failed == Step::exec && result_->error_number == ENOENT) {
            step += ": its interpreter or loader";  // the file itself was found
        }
        return SpawnFailure{.step = std::move(step),
                            .error_number = result_->error_number,
                            .is_exec = result_->failed == Step::exec};
    }
    return pid;
}

}  // namespace hvd::launch::agent
