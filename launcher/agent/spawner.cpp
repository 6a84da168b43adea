// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/spawner.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include <linux/sched.h>
#include <sched.h>
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
    pdeathsig,
    affinity,
    limits,
    streams,
    chdir,
    signals,
    exec,
};

std::string describe(Step step, const SpawnOrder& order, const std::string& program) {
    switch (step) {
        case Step::none: return "";
        case Step::agent_gone: return "getppid";
        case Step::setpgid: return "setpgid";
        case Step::pdeathsig: return "prctl PR_SET_PDEATHSIG";
        case Step::affinity: return "sched_setaffinity";
        case Step::limits: return "setrlimit";
        case Step::streams: return "dup2";
        case Step::chdir: return "chdir " + order.cwd;
        case Step::signals: return "sigprocmask";
        case Step::exec: return "execve " + program;
    }
    return "";
}

struct CpuSetDeleter {
    void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, CpuSetDeleter>;

/// libc has no name for it, and its own `syscall` returns, which the child cannot on a new stack:
/// there it calls `run`, which never returns. As the kernel: a negative errno on failure.
long clone3(const clone_args& how, int (*run)(void*), void* argument) {
#if defined(__x86_64__)
    long result = SYS_clone3;
    asm volatile(
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 1f\n\t"
        "mov %[argument], %%rdi\n\t"
        "xor %%ebp, %%ebp\n\t"  // the outermost frame
        "call *%[run]\n\t"
        "ud2\n"
        "1:"
        : "+a"(result)
        : "D"(&how), "S"(sizeof how), [run] "b"(run), [argument] "r"(argument)
        : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    long result = 0;
    asm volatile(
        "mov x8, %[number]\n\t"
        "mov x0, %[how]\n\t"
        "mov x1, %[size]\n\t"
        "svc #0\n\t"
        "cbnz x0, 1f\n\t"
        "mov x0, %[argument]\n\t"
        "mov x29, xzr\n\t"
        "blr %[run]\n\t"
        "brk #1\n"
        "1:\n\t"
        "mov %[result], x0"
        : [result] "=r"(result)
        : [number] "r"(long{SYS_clone3}), [how] "r"(&how), [size] "r"(sizeof how), [run] "r"(run),
          [argument] "r"(argument)
        : "x0", "x1", "x8", "cc", "memory");
    return result;
#else
    (void)how, (void)run, (void)argument;
    return -ENOSYS;
#endif
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

EnvironmentBlock::EnvironmentBlock(const Environment& environment) {
    entries_.reserve(environment.size());
    for (const auto& [name, value] : environment) {
        auto& entry = entries_.emplace_back(Entry{.text = {}, .name_size = name.size()});
        entry.text.reserve(name.size() + 1 + value.size());
        entry.text.append(name).append(1, '=').append(value);
    }
}

std::vector<char*> EnvironmentBlock::with(EnvironmentBlock& changes) {
    std::vector<char*> pointers;
    pointers.reserve(entries_.size() + changes.entries_.size() + 1);
    auto change = changes.entries_.begin();
    const auto take_change = [&] { pointers.push_back((change++)->text.data()); };
    for (auto& entry : entries_) {
        while (change != changes.entries_.end() && change->name() < entry.name()) {
            take_change();
        }
        if (change != changes.entries_.end() && change->name() == entry.name()) {
            take_change();
        } else {
            pointers.push_back(entry.text.data());
        }
    }
    while (change != changes.entries_.end()) {
        take_change();
    }
    pointers.push_back(nullptr);
    return pointers;
}

std::optional<std::string> EnvironmentBlock::find(std::string_view name) const {
    const auto entry = std::ranges::lower_bound(entries_, name, {}, &Entry::name);
    if (entry == entries_.end() || entry->name() != name) {
        return std::nullopt;
    }
    return entry->text.substr(name.size() + 1);
}

/// Everything the child needs, prepared before it exists, and where it leaves what went wrong.
struct Spawner::Child {
    const char* program = nullptr;
    char* const* argv = nullptr;
    char* const* shell_argv = nullptr;  // for a script without `#!`, as execvp runs it
    char* const* environment = nullptr;
    const char* cwd = nullptr;  // or none
    const cpu_set_t* cpus = nullptr;
    std::size_t cpus_bytes = 0;
    int in = -1;
    int out = -1;
    int err = -1;
    pid_t agent = 0;
    const Inheritance* given = nullptr;
    const rlimit* open_files = nullptr;  // or none

    // Written by the child, which shares our memory.
    volatile bool has_begun = false;
    volatile Step failed = Step::none;
    volatile int error_number = 0;
};

Spawner::Spawner(const Inheritance& given, int cgroup)
    : given_(given),
      agent_(::getpid()),
      cgroup_(cgroup),
      stack_(std::make_unique_for_overwrite<Stack>()) {}

// Between here and the program only async-signal-safe calls: our memory is borrowed.
HVD_UNCHECKED int Spawner::run_child(void* argument) {
    auto& child = *static_cast<Child*>(argument);
    child.has_begun = true;
    const auto fail = [&child](Step step) {
        child.error_number = errno;
        child.failed = step;
        ::_exit(127);
    };
    if (::setpgid(0, 0) != 0) {
        fail(Step::setpgid);
    }
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        fail(Step::pdeathsig);
    }
    if (::getppid() != child.agent) {
        errno = ECHILD;
        fail(Step::agent_gone);
    }
    if (child.cpus != nullptr && ::sched_setaffinity(0, child.cpus_bytes, child.cpus) != 0) {
        fail(Step::affinity);
    }
    if (::dup2(child.in, STDIN_FILENO) < 0 || ::dup2(child.out, STDOUT_FILENO) < 0 ||
        ::dup2(child.err, STDERR_FILENO) < 0) {
        fail(Step::streams);
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

/// vfork with a stack of the child's own: it cannot overwrite what the compiler keeps on ours.
pid_t Spawner::start(Child& child) {
    constexpr auto kShared = CLONE_VM | CLONE_VFORK;
    if (cgroup_ >= 0) {
        clone_args how{};
        how.flags = kShared | CLONE_INTO_CGROUP;
        how.exit_signal = SIGCHLD;
        how.stack = reinterpret_cast<std::uintptr_t>(stack_->data());
        how.stack_size = stack_->size();
        how.cgroup = static_cast<std::uint64_t>(cgroup_);
        const auto pid = static_cast<pid_t>(clone3(how, &Spawner::run_child, &child));
        if (pid > 0 && child.has_begun) {
            return pid;
        }
        if (pid == -EAGAIN || pid == -ENOMEM) {
            errno = -pid;
            return -1;
        }
        // A seccomp filter, no right to, a cgroup that takes no processes. Or the child was killed
        // at birth: Linux 6.14 and later may, where our own cgroup was once killed as a whole.
        cgroup_ = -1;
        while (pid > 0 && ::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
    return ::clone(&Spawner::run_child, stack_->data() + stack_->size(), kShared | SIGCHLD, &child);
}

std::variant<pid_t, SpawnFailure> Spawner::spawn(SpawnOrder order,
                                                 const std::vector<char*>& environment,
                                                 const std::string& program) {
    std::vector<char*> argv;
    std::string shell = "sh";
    std::string script = program;
    std::vector<char*> shell_argv{shell.data(), script.data()};
    for (auto& word : order.argv) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    shell_argv.insert(shell_argv.end(), std::next(argv.begin()), argv.end());

    CpuSet cpus;
    std::size_t cpus_bytes = 0;
    if (!order.cpus.empty()) {
        const int count = std::ranges::max(order.cpus) + 1;
        cpus.reset(CPU_ALLOC(count));
        cpus_bytes = CPU_ALLOC_SIZE(count);
        CPU_ZERO_S(cpus_bytes, cpus.get());
        for (const int cpu : order.cpus) {
            CPU_SET_S(static_cast<std::size_t>(cpu), cpus_bytes, cpus.get());
        }
    }

    Child child;
    child.program = program.c_str();
    child.argv = argv.data();
    child.shell_argv = shell_argv.data();
    child.environment = environment.data();
    child.cwd = order.cwd.empty() ? nullptr : order.cwd.c_str();
    child.cpus = cpus.get();
    child.cpus_bytes = cpus_bytes;
    child.in = order.in;
    child.out = order.out;
    child.err = order.err;
    child.agent = agent_;
    child.given = &given_;
    child.open_files = given_.open_files ? &*given_.open_files : nullptr;

    const pid_t pid = start(child);
    if (pid < 0) {
        return SpawnFailure{.step = "vfork", .error_number = errno};
    }
    if (child.failed != Step::none) {
        while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
        auto step = describe(child.failed, order, order.argv.front());
        if (child.failed == Step::exec && child.error_number == ENOENT) {
            step += ": its interpreter or loader";  // the file itself was found
        }
        return SpawnFailure{.step = std::move(step), .error_number = child.error_number};
    }
    return pid;
}

}  // namespace hvd::launch::agent
