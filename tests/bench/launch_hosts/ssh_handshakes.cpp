// SPDX-License-Identifier: Apache-2.0
//
// ssh_handshakes [--kex METHOD] [--run COMMAND] KEY ADDRESS...: connects to every address as root,
// all at once in one thread, shakes hands, proves the key, and leaves: what any launcher over SSH
// must at least spend. With a command, its login shell and its output too: what one must that
// starts anything. Keys are exchanged as libssh2 prefers, or by METHOD.
#include "collectives/base/unique_fd.hpp"

#include <libssh2.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace {

constexpr std::uint16_t kPort = 22;
constexpr int kTimeoutMilliseconds = 30000;

struct FreeSession {
    void operator()(LIBSSH2_SESSION* session) const { (void)libssh2_session_free(session); }
};

/// The same for all hosts.
struct Manner {
    std::string key;
    std::string key_exchange;  // empty: what libssh2 prefers
    std::string command;       // empty: none
};

class Handshake {
public:
    Handshake(std::string address, const Manner& manner)
        : address_(std::move(address)),
          key_(manner.key),
          command_(manner.command),
          socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
          session_(libssh2_session_init()) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(kPort);
        if (::inet_pton(AF_INET, address_.c_str(), &to.sin_addr) != 1 || !socket_ || !session_) {
            throw std::runtime_error(address_ + ": not an IPv4 address, or no socket");
        }
        (void)::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
        const int on = 1;  // or what we send in two pieces waits for an acknowledgement
        (void)::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        libssh2_session_set_blocking(session_.get(), 0);
        if (!manner.key_exchange.empty()) {
            (void)libssh2_session_method_pref(session_.get(), LIBSSH2_METHOD_KEX,
                                              manner.key_exchange.c_str());
        }
    }

    [[nodiscard]] pollfd waits_for() const {
        const int directions = libssh2_session_block_directions(session_.get());
        const bool writes =
            step_ == Step::connect || (directions & LIBSSH2_SESSION_BLOCK_OUTBOUND) != 0;
        return {.fd = socket_.get(),
                .events = static_cast<short>(writes ? POLLOUT : POLLIN),
                .revents = 0};
    }

    /// Goes on as far as it can; true at the end.
    [[nodiscard]] bool go_on() {
        // The server's two small messages would otherwise wait for our delayed acknowledgement.
        const int quick = 1;
        (void)::setsockopt(socket_.get(), IPPROTO_TCP, TCP_QUICKACK, &quick, sizeof quick);
        if (step_ == Step::connect) {
            step_ = Step::shake;
        }
        if (step_ == Step::shake &&
            is_done(libssh2_session_handshake(session_.get(), socket_.get()))) {
            step_ = Step::prove;
        }
        if (step_ == Step::prove && is_done(prove())) {
            step_ = command_.empty() ? Step::done : Step::open;
        }
        if (step_ == Step::open && is_done(open())) {
            step_ = Step::execute;
        }
        if (step_ == Step::execute && is_done(execute())) {
            step_ = Step::drain;
        }
        if (step_ == Step::drain && is_done(drain())) {
            step_ = Step::done;
        }
        return step_ == Step::done;
    }

private:
    enum class Step : std::uint8_t { connect, shake, prove, open, execute, drain, done };

    int prove() {
        constexpr std::string_view kUser = "root";
        return libssh2_userauth_publickey_fromfile_ex(session_.get(), kUser.data(), kUser.size(),
                                                      (key_ + ".pub").c_str(), key_.c_str(),
                                                      nullptr);
    }

    int open() {
        channel_ = libssh2_channel_open_session(session_.get());
        return channel_ == nullptr ? libssh2_session_last_errno(session_.get()) : 0;
    }

    int execute() {
        constexpr std::string_view kRequest = "exec";
        return libssh2_channel_process_startup(channel_, kRequest.data(), kRequest.size(),
                                               command_.data(),
                                               static_cast<unsigned>(command_.size()));
    }

    /// Until the command has closed its standard output.
    int drain() {
        std::array<char, 4096> output{};
        while (true) {
            const auto count = libssh2_channel_read(channel_, output.data(), output.size());
            if (count <= 0) {
                return static_cast<int>(count);
            }
        }
    }

    [[nodiscard]] bool is_done(int code) const {
        if (code == 0 || code == LIBSSH2_ERROR_EAGAIN) {
            return code == 0;
        }
        char* message = nullptr;
        (void)libssh2_session_last_error(session_.get(), &message, nullptr, 0);
        throw std::runtime_error(address_ + ": " + message);
    }

    std::string address_;
    std::string key_;
    std::string command_;
    hvd::UniqueFd socket_;
    std::unique_ptr<LIBSSH2_SESSION, FreeSession> session_;
    LIBSSH2_CHANNEL* channel_ = nullptr;  // freed with the session
    Step step_ = Step::connect;
};

void shake_all(std::deque<Handshake> open) {
    std::vector<pollfd> waits;
    while (!open.empty()) {
        waits.clear();
        for (const Handshake& one : open) {
            waits.push_back(one.waits_for());
        }
        if (::poll(waits.data(), waits.size(), kTimeoutMilliseconds) <= 0) {
            throw std::runtime_error("no answer from " + std::to_string(open.size()) + " hosts");
        }
        std::deque<Handshake> left;
        for (std::size_t index = 0; index < waits.size(); ++index) {
            if (waits[index].revents == 0 || !open[index].go_on()) {
                left.push_back(std::move(open[index]));
            }
        }
        open = std::move(left);
    }
}

}  // namespace

int main(int argc, char** argv) {
    auto words = std::span(argv, static_cast<std::size_t>(argc)).subspan(1);
    Manner manner{};
    for (; words.size() > 2; words = words.subspan(2)) {
        if (std::string_view(words[0]) == "--kex") {
            manner.key_exchange = words[1];
        } else if (std::string_view(words[0]) == "--run") {
            manner.command = words[1];
        } else {
            break;
        }
    }
    if (words.size() < 2) {
        (void)std::fputs("usage: ssh_handshakes [--kex METHOD] [--run COMMAND] KEY ADDRESS...\n",
                         stderr);
        return 2;
    }
    manner.key = words[0];
    try {
        (void)libssh2_init(0);
        std::deque<Handshake> all;
        for (const char* address : words.subspan(1)) {
            all.emplace_back(address, manner);
        }
        shake_all(std::move(all));
        return 0;
    } catch (const std::exception& error) {
        (void)std::fprintf(stderr, "ssh_handshakes: %s\n", error.what());
        return 1;
    }
}
