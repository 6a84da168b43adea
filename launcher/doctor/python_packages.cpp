// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/python_packages.hpp"

#include "collectives/base/argv.hpp"
#include "collectives/base/command_path.hpp"
#include "collectives/base/error.hpp"
#include "collectives/base/result.hpp"
#include "collectives/base/text.hpp"
#include "collectives/base/unique_fd.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

// Finding the spec of a top-level package runs none of its code. The working directory is left out:
// a folder called "torch" there is no framework.
constexpr const char* kProgram = R"(
import importlib.util, os, sys
sys.path = [p for p in sys.path if p]
for name in sys.argv[1].split(","):
    try:
        spec = importlib.util.find_spec(name)
    except Exception:
        continue
    if spec is not None and spec.origin:
        print(name + "\t" + os.path.dirname(spec.origin), flush=True)
files = (os.path.join(folder, "nvidia/nccl/lib/libnccl.so.2") for folder in sys.path)
named = os.environ.get("HOROVOD_NCCL_LIBRARY", "")
file = named or next(filter(os.path.isfile, files), "")
try:
    import ctypes
    if file and not named:
        try:
            ctypes.CDLL(file)
        except OSError:
            file = ""
    version = ctypes.c_int()
    if ctypes.CDLL(named or "libnccl.so.2").ncclGetVersion(ctypes.byref(version)) == 0:
        print("NCCL\t%d\t%s" % (version.value, file))
except Exception:
    pass
)";
constexpr std::string_view kNccl = "NCCL";

/// A running child, and the end of the pipe it writes to.
struct Child {
    pid_t pid = 0;
    UniqueFd output;
};

Result<Child> spawn(std::vector<std::string> words, const Environment& environment) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        return system_error("pipe", errno);
    }
    Child child{.pid = 0, .output = UniqueFd(ends[0])};
    const UniqueFd write_end(ends[1]);

    std::vector<std::string> variables;
    for (const auto& [name, value] : environment) {
        variables.push_back(std::string(name).append("=").append(value));
    }
    posix_spawn_file_actions_t actions{};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const int error = posix_spawn(&child.pid, words.front().c_str(), &actions, nullptr,
                                  pointers_to(words).data(), pointers_to(variables).data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        return system_error(words.front(), error);
    }
    return child;
}

/// The child's output until its end, or nothing at the deadline.
std::optional<std::string> read_all(const UniqueFd& output, const Deadline& deadline) {
    std::string text;
    std::array<char, 4096> chunk{};
    while (true) {
        pollfd ready{.fd = output.get(), .events = POLLIN, .revents = 0};
        const int count = poll(&ready, 1, deadline.poll_timeout_ms());
        if (count == 0) {
            return std::nullopt;
        }
        const auto got = count > 0 ? read(output.get(), chunk.data(), chunk.size()) : -1;
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return text;
        }
        text.append(chunk.data(), static_cast<std::size_t>(got));
    }
}

/// The one beside us, else the first in PATH; nothing if there is none.
std::filesystem::path find_interpreter(const Environment& environment,
                                       const std::filesystem::path& beside) {
    const auto path = find(environment, "PATH").value_or("");
    const auto folders = {beside.string(), std::string(path)};
    for (const auto& folder : folders) {
        for (const auto* name : {"python3", "python"}) {
            if (const auto file = find_command(name, folder, ""); file.is_program()) {
                return file.path;
            }
        }
    }
    return {};
}

/// "torch\t/site/torch", or "NCCL\t22707\t/site/nvidia/nccl/lib/libnccl.so.2".
void read_line(std::string_view line, PythonPackages& packages) {
    const auto words = split(line, '\t');
    if (words.size() == 3 && words[0] == kNccl) {
        packages.nccl = {.version = parse_number<int>(words[1]).value_or(0),
                         .file = std::string(words[2])};
    } else if (words.size() == 2) {
        packages.found.emplace(words[0], words[1]);
    }
}

}  // namespace

PythonPackages find_python_packages(const Environment& environment,
                                    const std::filesystem::path& beside,
                                    const std::vector<std::string>& modules,
                                    const Deadline& deadline) {
    PythonPackages packages;
    packages.interpreter = find_interpreter(environment, beside).string();
    if (packages.interpreter.empty()) {
        packages.error = "no Python in PATH";
        return packages;
    }
    auto child = spawn({packages.interpreter, "-c", kProgram, join(modules, ",")}, environment);
    if (!child) {
        packages.error = child.error().message;
        return packages;
    }
    const auto text = read_all(child->output, deadline);
    if (!text) {
        (void)kill(child->pid, SIGKILL);
        packages.error = packages.interpreter + " did not answer in time";
    }
    (void)waitpid(child->pid, nullptr, 0);  // it closed its output: it ends, or was killed
    const auto answer = text.value_or("");
    for (const auto line : split(answer, '\n')) {
        read_line(line, packages);
    }
    return packages;
}

}  // namespace hvd::launch
