// SPDX-License-Identifier: Apache-2.0
//
// Starts a process with the speed of vfork and tells which step of its start failed.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <sys/resource.h>
#include <sys/types.h>

namespace hvd::launch::agent {

/// The attributes that this process inherited and that its ranks get unchanged. Taken by the
/// guard before it changes anything.
struct Inheritance {
    sigset_t signal_mask{};
    bool ignores_sigchld = false;
    std::optional<rlimit> open_files;  // where `make_room` has changed it
};

/// Lets this process open `descriptors` files, as far as the hard limit goes.
void make_room(Inheritance& given, std::size_t descriptors);

/// One process to start. The descriptors become its standard input, output and error; all others
/// that we opened are close-on-exec.
struct SpawnRequest {
    std::vector<std::string> argv;
    std::vector<int> cpus;  // empty leaves the affinity alone
    std::string cwd;        // empty leaves it alone
    int in = -1;
    int out = -1;
    int err = -1;
    bool has_terminal = false;  // `in` becomes its controlling terminal
};

struct SpawnFailure {
    std::string step;  // "chdir /data", "execve ./train"
    int error_number = 0;
    bool is_exec = false;  // the program is at fault
};

class Spawner final {
public:
    /// The processes start in the cgroup (version 2) with this open folder where the kernel lets
    /// them, -1: in our own. Throws Exception without memory.
    explicit Spawner(const Inheritance& given, int cgroup = -1);

    /// The new process runs its program: it leads a new process group (so that a
    /// signal reaches the children of a wrapper script), with a terminal a new session, is killed
    /// when the agent dies, and has the signal mask, dispositions and limits that horovodrun was
    /// given. `environment` ends with a null pointer.
    [[nodiscard]] std::variant<pid_t, SpawnFailure> spawn(SpawnRequest request,
                                                          const std::vector<char*>& environment,
                                                          const std::string& program);

private:
    struct Child;
    struct Result;
    struct Unmap {
        void operator()(Result* result) const noexcept;
    };

    static int run_child(void* argument);
    [[nodiscard]] pid_t start(Child& child);

    Inheritance given_;
    pid_t agent_;
    int cgroup_;
    static constexpr std::size_t kStackBytes = std::size_t{64} << 10;
    using Stack = std::array<std::byte, kStackBytes>;
    std::unique_ptr<Stack> stack_;  // of the child, until it executes its program
    std::unique_ptr<Result, Unmap> result_;
};

}  // namespace hvd::launch::agent
