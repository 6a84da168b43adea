// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hosts/host.hpp"

#include "collectives/base/unique_fd.hpp"
#include "tests/support/hosts/calls.hpp"
#include "tests/support/hosts/interface.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::vector<Words> read_steps(const char* file) {
    std::ifstream stream(file);
    std::vector<Words> steps;
    for (std::string line; std::getline(stream, line);) {
        std::istringstream words(line);
        steps.emplace_back();
        for (std::string word; std::getline(words, word, '\t');) {
            steps.back().push_back(word);
        }
    }
    if (steps.empty()) {
        throw std::runtime_error(std::string(file) + ": no steps");
    }
    return steps;
}

unsigned long mount_flags(const std::string& text) {
    static const std::map<std::string, unsigned long> known = {{"ro", MS_RDONLY},
                                                               {"noexec", MS_NOEXEC},
                                                               {"nosuid", MS_NOSUID},
                                                               {"nodev", MS_NODEV},
                                                               {"-", 0}};
    unsigned long flags = 0;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        flags |= known.at(word);
    }
    return flags;
}

/// The place to mount on, made where it is missing.
void make_place(const std::string& path, bool is_folder) {
    if (fs::exists(path)) {
        return;
    }
    fs::create_directories(is_folder ? fs::path(path) : fs::path(path).parent_path());
    if (!is_folder) {
        const UniqueFd file(check(::open(path.c_str(), O_CREAT | O_CLOEXEC, 0644), path));
    }
}

class HostSetup {
public:
    explicit HostSetup(std::vector<Words> steps) : steps_(std::move(steps)) {}

    /// Everything that later mounts would hide is opened before the first of them.
    void run() {
        check(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "private mounts");
        std::vector<UniqueFd> sources(steps_.size());
        for (std::size_t index = 0; index < steps_.size(); ++index) {
            const Words& step = steps_[index];
            const bool is_log = step.at(0) == "log";
            if (is_log || step[0] == "bind") {
                const int flags = is_log ? O_WRONLY | O_CREAT | O_APPEND : O_PATH;
                const int fd = ::open(step.at(1).c_str(), flags | O_CLOEXEC, 0644);
                sources[index].reset(check(fd, step[1]));
            }
        }
        check(::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr), "/proc");
        for (std::size_t index = 0; index < steps_.size(); ++index) {
            take(steps_[index], sources[index]);
        }
    }

private:
    void take(const Words& step, const UniqueFd& source) {
        const std::string& verb = step[0];
        if (verb == "hostname") {
            check(::sethostname(step.at(1).data(), step[1].size()), "hostname");
        } else if (verb == "log") {
            check(::dup2(source.get(), STDERR_FILENO), "log");
        } else if (verb == "bind") {
            bind(source, step.at(2), mount_flags(step.at(3)));
        } else if (verb == "mount") {
            make_place(step.at(2), true);
            check(::mount(step[1].c_str(), step[2].c_str(), step[1].c_str(),
                          mount_flags(step.at(3)), step.at(4).c_str()),
                  step[1] + " on " + step[2]);
        } else if (verb == "folder") {
            fs::create_directories(step.at(1));
            const auto mode = std::stoul(step.at(2), nullptr, 8);
            check(::chmod(step[1].c_str(), static_cast<mode_t>(mode)), step[1]);
        } else if (verb == "link") {
            fs::create_symlink(step.at(1), step.at(2));
        } else if (verb == "address") {
            wait_for_interface();
            add_address("eth0", step.at(1));
        } else if (verb == "daemon") {
            start_daemon(step);
        } else {
            throw std::runtime_error("unknown step " + verb);
        }
    }

    static void bind(const UniqueFd& source, const std::string& to, unsigned long flags) {
        struct stat found {};
        check(::fstat(source.get(), &found), to);
        make_place(to, S_ISDIR(found.st_mode));
        const std::string from = "/proc/self/fd/" + std::to_string(source.get());
        check(::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr), to);
        if (flags != 0) {
            check(::mount(nullptr, to.c_str(), nullptr, MS_BIND | MS_REMOUNT | flags, nullptr), to);
        }
    }

    void wait_for_interface() {
        if (!has_interface_) {
            std::array<char, 8> line{};
            check(::read(STDIN_FILENO, line.data(), line.size()) > 0 ? 0 : -1, "word about eth0");
            bring_up("lo");
            has_interface_ = true;
        }
    }

    static void start_daemon(Words step) {
        const pid_t child = check(::fork(), "fork");
        if (child == 0) {
            std::vector<char*> words;
            for (std::size_t index = 2; index < step.size(); ++index) {
                words.push_back(step[index].data());
            }
            words.push_back(nullptr);
            ::dup2(STDERR_FILENO, STDOUT_FILENO);
            const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
            ::dup2(null.get(), STDIN_FILENO);
            ::execv(words[0], words.data());
            std::_Exit(127);
        }
        wait_until_listening(step.at(1));
    }

    std::vector<Words> steps_;
    bool has_interface_ = false;
};

/// PID 1: sets the host up, then reaps until it is killed.
[[noreturn]] void be_host(std::vector<Words> steps) {
    try {
        die_with_parent();
        check(::setsid(), "session");
        HostSetup(std::move(steps)).run();
        check(::write(STDOUT_FILENO, "ready\n", 6), "standard output");
    } catch (const std::exception& error) {
        std::fprintf(stdout, "failed: %s\n", error.what());
        std::fflush(stdout);
        std::_Exit(1);
    }
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ::dup2(null.get(), STDIN_FILENO);
    ::dup2(null.get(), STDOUT_FILENO);
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    (void)::pthread_sigmask(SIG_BLOCK, &child, nullptr);
    while (true) {
        while (::waitpid(-1, nullptr, WNOHANG) > 0) {
        }
        (void)::sigwaitinfo(&child, nullptr);
    }
}

}  // namespace

int run_host(const char* file) {
    die_with_parent();
    auto steps = read_steps(file);
    check(::unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWPID),
          "namespaces");
    const pid_t child = check(::fork(), "fork");
    if (child == 0) {
        be_host(std::move(steps));
    }
    std::printf("pid %d\n", child);
    std::fflush(stdout);
    // This process holds the network namespace, so that the host's kernel still answers when all of
    // its processes are gone.
    int status = 0;
    check(::waitpid(child, &status, 0), "PID 1");
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ::dup2(null.get(), STDOUT_FILENO);
    while (true) {
        ::pause();
    }
}

}  // namespace hvd::test
