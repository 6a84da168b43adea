// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/remote/private_sshd.hpp"

#include "collectives/base/deadline.hpp"
#include "collectives/base/error.hpp"
#include "collectives/base/unique_fd.hpp"
#include "tests/support/test_main.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::test {
namespace {

constexpr const char* kSshd = "/usr/sbin/sshd";

sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

int free_port() {
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto address = loopback(0);
    socklen_t size = sizeof address;
    (void)::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size);
    (void)::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
}

bool accepts(int port) {
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = loopback(port);
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
           0;
}

}  // namespace

bool has_sshd() {
    if (::access(kSshd, X_OK) == 0) {
        return true;
    }
    skip("openssh-server is not installed");
    return false;
}

void PrivateSshd::run(const std::string& line) const {
    const auto command = "cd " + folder().string() + " && { " + line + "; } >>log 2>&1";
    if (std::system(command.c_str()) != 0) {  // NOLINT(concurrency-mt-unsafe): one thread
        throw Exception({Errc::internal, line + ": " + TempDir::read(folder() / "log")});
    }
}

PrivateSshd::PrivateSshd(std::string_view more_config) : port_(free_port()) {
    run("ssh-keygen -q -t ed25519 -N '' -f host && ssh-keygen -q -t rsa -b 2048 -N '' -f host_rsa "
        "&& "
        "ssh-keygen -q -t ed25519 -N '' -f key && cp key.pub authorized && "
        "echo \"[127.0.0.1]:" +
        std::to_string(port_) + " $(cat host.pub)\" > known_hosts");
    const auto name = [this](std::string_view file) { return (folder() / file).string(); };
    const auto config = folder_.write(
        "sshd_config",
        std::string(more_config) + "\nListenAddress 127.0.0.1\nPort " + std::to_string(port_) +
            "\nHostKey " + name("host") + "\nHostKey " + name("host_rsa") +
            "\nAuthorizedKeysFile " + name("authorized") +
            "\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 100\n");
    if (::geteuid() == 0) {
        (void)::mkdir("/run/sshd", S_IRWXU | S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH);
    }
    const auto log = name("sshd_log");
    pid_ = ::fork();
    if (pid_ == 0) {
        (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
        ::execl(kSshd, kSshd, "-D", "-E", log.c_str(), "-f", config.c_str(), nullptr);
        ::_exit(1);
    }
    const auto deadline = Deadline::in(std::chrono::seconds(10));
    while (!accepts(port_)) {
        if (deadline.has_passed()) {
            throw Exception({Errc::timed_out, "sshd: " + TempDir::read(log)});
        }
        (void)::poll(nullptr, 0, 10);
    }
}

PrivateSshd::~PrivateSshd() {
    if (pid_ > 0) {
        (void)::kill(pid_, SIGTERM);
        (void)::waitpid(pid_, nullptr, 0);
    }
}

launch::SshTask PrivateSshd::options(std::string_view more) const {
    const auto name = [this](std::string_view file) { return (folder() / file).string(); };
    return {.options = {.config = folder_.write(
                            "config",
                            std::string(more) + "\nHost node*\n  HostName 127.0.0.1\n  Port " +
                                std::to_string(port_) + "\n  IdentityFile " + name("key") +
                                "\n  UserKnownHostsFile " + name("known_hosts") +
                                "\n  GlobalKnownHostsFile none\n  IdentityAgent none\n")},
            .connect_timeout = std::chrono::seconds(10)};
}

KeyAgent::KeyAgent(const PrivateSshd& sshd) : sshd_(sshd) {
    sshd.run(
        "ssh-agent -D -a agent & echo $! > agent_pid; "
        "for i in $(seq 100); do [ -S agent ] || sleep 0.1; done; "
        "SSH_AUTH_SOCK=agent ssh-add key && mv key elsewhere");
}

KeyAgent::~KeyAgent() {
    sshd_.run("kill $(cat agent_pid) || :");
}

std::string KeyAgent::settings() const {
    return "Host node*\n  IdentityAgent " + (sshd_.folder() / "agent").string();
}

}  // namespace hvd::test
