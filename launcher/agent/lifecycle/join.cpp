// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/join.hpp"

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/unique_fd.hpp"
#include "collectives/transport/tcp/keep_alive.hpp"
#include "launcher/agent/lifecycle/agent.hpp"
#include "launcher/agent/lifecycle/guard.hpp"
#include "launcher/agent/lifecycle/pid1_signals.hpp"
#include "launcher/hosts/slurm_variables.hpp"
#include "launcher/model/exit_code.hpp"
#include "launcher/wire/build_id.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// For one connection, from the first packet to the launcher's answer.
constexpr auto kAttemptTimeout = std::chrono::seconds(10);
constexpr auto kShortestAttempt = std::chrono::seconds(1);
constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{2'000};

struct Joined {
    UniqueFd socket;
    wire::Encryption encryption;
};

/// Errors: timed_out.
Status wait_for(int socket, short events, Deadline deadline, std::string_view what) {
    pollfd ready{.fd = socket, .events = events, .revents = 0};
    while (true) {
        const int count = ::poll(&ready, 1, deadline.poll_timeout_ms());
        if (count > 0) {
            return ok();
        }
        if (count == 0) {
            return Error{Errc::timed_out, "no " + std::string(what) + " came in time"};
        }
        if (errno != EINTR) {
            return system_error("poll", errno);
        }
    }
}

Result<UniqueFd> connect_to(const JoinAddress& address, Deadline deadline) {
    UniqueFd socket(
        ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) {
        return Error{Errc::unavailable, system_error("socket", errno).message};
    }
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                  address.size) != 0) {
        if (errno != EINPROGRESS) {
            return Error{Errc::unavailable, system_error("connect", errno).message};
        }
        HVD_TRY_STATUS(wait_for(socket.get(), POLLOUT, deadline, "connection"));
        int error = 0;
        socklen_t size = sizeof error;
        (void)::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0) {
            return Error{Errc::unavailable, system_error("connect", error).message};
        }
    }
    coll::net::keep_alive(socket.get());
    return socket;
}

/// After a call that gave `count`: waits where it would have blocked. Errors: what else failed.
Status settle_call(ssize_t count,
                   std::string_view call,
                   int socket,
                   short events,
                   Deadline deadline) {
    if (count >= 0 || errno == EINTR) {
        return ok();
    }
    if (errno == EAGAIN) {
        return wait_for(socket, events, deadline,
                        events == POLLOUT ? "room for what we send" : "answer");
    }
    return Error{Errc::unavailable, system_error(call, errno).message};
}

Status send_all(int socket, std::span<const std::byte> bytes, Deadline deadline) {
    while (!bytes.empty()) {
        const auto count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        HVD_TRY_STATUS(settle_call(count, "send", socket, POLLOUT, deadline));
        bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
    return ok();
}

Result<std::vector<std::byte>> receive(int socket, std::size_t size, Deadline deadline) {
    std::vector<std::byte> bytes(size);
    auto rest = std::span(bytes);
    while (!rest.empty()) {
        const auto count = ::recv(socket, rest.data(), rest.size(), 0);
        if (count == 0) {
            return Error{Errc::unavailable, "the other end closed the connection"};
        }
        HVD_TRY_STATUS(settle_call(count, "recv", socket, POLLIN, deadline));
        rest = rest.subspan(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
    return bytes;
}

/// The launcher's answer, and no byte behind it: that belongs to the control stream.
Status hear_answer(int socket, wire::Decryptor& decryptor, Deadline deadline) {
    std::vector<std::byte> plain;
    while (true) {
        HVD_TRY(const auto bytes, receive(socket, decryptor.needed(), deadline));
        HVD_TRY(const auto decrypted, decryptor.decrypt(bytes));
        plain.insert(plain.end(), decrypted.begin(), decrypted.end());
        HVD_TRY(const auto answer, wire::take_join_answer(plain));
        if (answer) {
            return answer->error.empty()
                       ? ok()
                       : Status(Error{Errc::mismatch, "horovodrun refused us: " + answer->error});
        }
    }
}

Result<Joined> join_at(const JoinAddress& address,
                       const wire::Key& token,
                       const wire::Introduction& introduction,
                       Deadline deadline) {
    HVD_TRY(auto socket, connect_to(address, deadline));
    auto handshake = wire::JoinHandshake::joining(token, wire::make_join_nonce());
    while (!handshake.is_done()) {
        HVD_TRY(const auto bytes, receive(socket.get(), handshake.needed(), deadline));
        HVD_TRY_STATUS(handshake.feed(bytes));
        HVD_TRY_STATUS(send_all(socket.get(), handshake.take_output(), deadline));
    }
    Joined joined{.socket = std::move(socket), .encryption = handshake.encryption()};
    auto& [encryptor, decryptor] = joined.encryption;
    HVD_TRY_STATUS(
        send_all(joined.socket.get(), encryptor.encrypt(wire::encode(introduction)), deadline));
    HVD_TRY_STATUS(hear_answer(joined.socket.get(), decryptor, deadline));
    return joined;
}

/// Until somebody takes us: the launcher may be started after us.
Result<Joined> join_any(const JoinOptions& options,
                        const wire::Key& token,
                        const wire::Introduction& introduction,
                        Deadline deadline) {
    auto pause = kFirstPause;
    bool has_said = false;
    while (true) {
        std::string last;
        // Two rounds at least, where there is time for attempts that deserve the name.
        const auto share = std::max<Deadline::Clock::duration>(
            kShortestAttempt, options.timeout / (2 * options.addresses.size()));
        for (const auto& address : options.addresses) {
            const auto attempt = Deadline::in(
                std::min<Deadline::Clock::duration>({kAttemptTimeout, options.timeout, share}));
            auto joined = join_at(address, token, introduction, attempt);
            if (joined) {
                return joined;
            }
            const auto code = joined.error().code;
            last = address.text + ": " + joined.error().message;
            if (code != Errc::unavailable && code != Errc::timed_out) {
                return Error{code, "cannot join " + last};
            }
        }
        if (!std::exchange(has_said, true)) {
            print_error(introduction.name + " is waiting for " + last);
        }
        const auto left = std::chrono::milliseconds(deadline.poll_timeout_ms());
        if (left.count() == 0) {
            return Error{Errc::timed_out, "could not join in time (--start-timeout): " + last};
        }
        (void)::poll(nullptr, 0, static_cast<int>(std::min(pause, left).count()));
        pause = std::min(2 * pause, kLongestPause);
    }
}

std::string own_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// The name of the node, and no memory of being its task: ranks inherit what is left.
std::string leave_slurm_step() {
    for (const auto& name : step_variables(current_environment())) {
        unset_env(name);
    }
    return read_env("SLURMD_NODENAME").value_or(own_name());
}

/// The program goes on running; nobody else finds it.
void remove_own_file(const std::string& file) {
    (void)::unlink(file.c_str());
    (void)::rmdir(file.substr(0, file.rfind('/')).c_str());
}

int fail(const Error& error) {
    print_error(error.message);
    return error.code == Errc::timed_out ? kExitTimeLimit : kExitLauncherFailure;
}

}  // namespace

int run_joined_agent(const JoinOptions& options) {
    std::optional<Pid1Signals> alone(std::in_place);  // until there is a guard
    const auto deadline = Deadline::in(options.timeout);
    const auto token = read_token(options, deadline);
    if (!token) {
        const int exit_code = fail(token.error());
        return exit_code == kExitTimeLimit ? exit_code : kExitUsage;
    }
    const auto hostname = own_name();
    if (!options.own_file.empty()) {
        remove_own_file(options.own_file);
    }
    const auto name = options.is_slurm_step ? leave_slurm_step() : hostname;
    const wire::Introduction introduction{.build_id = std::string(wire::build_id()),
                                          .name = options.name.empty() ? name : options.name,
                                          .hostname = hostname,
                                          .slots = options.slots};
    auto joined = join_any(options, *token, introduction, deadline);
    if (!joined) {
        return fail(joined.error());
    }
    UniqueFd writing(::fcntl(joined->socket.get(), F_DUPFD_CLOEXEC, 0));
    const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!writing || !nothing) {
        return fail(system_error("descriptors", errno));
    }
    // The token's place is nobody's input.
    (void)::dup2(nothing.get(), STDIN_FILENO);
    if (!options.is_slurm_step) {
        print_error("joined as " + introduction.name);
    }
    alone.reset();
    return run_guarded_agent(joined->socket.release(), writing.release(), joined->encryption,
                             options.is_slurm_step);
}

}  // namespace hvd::launch::agent
