// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/rendezvous/munge_daemon.hpp"

#include "collectives/base/deadline.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::test {

namespace fs = std::filesystem;

MungeDaemon::MungeDaemon() {
    const auto key = folder_.write("key", std::string(128, 'k'));
    fs::permissions(key, fs::perms::owner_read);
    const auto in_folder = [&](const char* flag, const char* name) {
        return std::string(flag) + (folder_.path() / name).string();
    };
    // --force: a folder of a test is not as protected as /run/munge.
    std::vector<std::string> arguments{"/usr/sbin/munged",
                                       "--foreground",
                                       "--force",
                                       "--num-threads=2",
                                       in_folder("--key-file=", "key"),
                                       in_folder("--socket=", "socket"),
                                       in_folder("--pid-file=", "pid"),
                                       in_folder("--seed-file=", "seed"),
                                       in_folder("--log-file=", "log")};
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (auto& argument : arguments) {
        argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    std::vector<char*> environment{nullptr};
    if (::posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environment.data()) != 0) {
        throw std::runtime_error("munged cannot be started: is the package munge installed?");
    }
    const auto limit = Deadline::in(std::chrono::seconds(20));
    while (!fs::exists(socket())) {
        if (limit.has_passed() || ::waitpid(pid_, nullptr, WNOHANG) != 0) {
            throw std::runtime_error("munged did not start: " +
                                     TempDir::read(folder_.path() / "log"));
        }
        (void)::poll(nullptr, 0, 10);
    }
}

MungeDaemon::~MungeDaemon() {
    (void)::kill(pid_, SIGTERM);
    (void)::waitpid(pid_, nullptr, 0);
}

}  // namespace hvd::test
