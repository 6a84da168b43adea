// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/join.hpp"

#include "collectives/base/deadline.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/text.hpp"
#include "collectives/base/unique_fd.hpp"
#include "collectives/net/keep_alive.hpp"
#include "launcher/agent/agent.hpp"
#include "launcher/agent/first_process.hpp"
#include "launcher/agent/guard.hpp"
#include "launcher/hosts/slurm_variables.hpp"
#include "launcher/wire/build_id.hpp"
#include "launcher/wire/join.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr int kUsage = 2;
constexpr int kTimeLimit = 124;
constexpr int kFailed = 125;
constexpr std::size_t kMaxToken = 4096;
constexpr int kMaxSlots = 65'536;
constexpr int kMaxSeconds = 31'536'000;

/// For one connection, from the first packet to the launcher's answer.
constexpr auto kAttemptPatience = std::chrono::seconds(10);
constexpr auto kShortestAttempt = std::chrono::seconds(1);
constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{2'000};

Error wrong(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

// ---- arguments ----

Result<JoinAddress> parse_address(std::string_view text) {
    const auto refuse = [&] {
        return wrong("--join " + std::string(text) +
                     ": must be a literal address and a port, such as 10.0.0.1:4000 or "
                     "[fd00::1]:4000; `horovodrun --join` takes names");
    };
    const auto colon = text.rfind(':');
    const auto port = colon == std::string_view::npos
                          ? std::nullopt
                          : parse_number<std::uint16_t>(text.substr(colon + 1));
    if (!port || *port == 0) {
        return refuse();
    }
    JoinAddress address{.text = std::string(text)};
    auto host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
        const auto percent = host.find('%');
        sockaddr_in6 six{};
        six.sin6_family = AF_INET6;
        six.sin6_port = htons(*port);
        if (::inet_pton(AF_INET6, std::string(host.substr(0, percent)).c_str(), &six.sin6_addr) !=
            1) {
            return refuse();
        }
        if (percent != std::string_view::npos) {
            const std::string scope(host.substr(percent + 1));
            six.sin6_scope_id =
                parse_number<std::uint32_t>(scope).value_or(::if_nametoindex(scope.c_str()));
        }
        std::memcpy(&address.storage, &six, sizeof six);
        address.size = sizeof six;
        return address;
    }
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(*port);
    if (::inet_pton(AF_INET, std::string(host).c_str(), &four.sin_addr) != 1) {
        return refuse();
    }
    std::memcpy(&address.storage, &four, sizeof four);
    address.size = sizeof four;
    return address;
}

Status apply(JoinOrder& order, std::string_view flag, std::string_view value) {
    if (flag == "--join") {
        HVD_TRY(auto address, parse_address(value));
        order.addresses.push_back(std::move(address));
    } else if (flag == "--join-name") {
        order.name = value;
    } else if (flag == "--join-token-file") {
        order.token_file = value;
    } else if (flag == "--join-slots") {
        const auto slots = parse_number<int>(value);
        if (!slots || *slots < 1 || *slots > kMaxSlots) {
            return wrong("--join-slots " + std::string(value) + ": must be a number from 1 to " +
                         std::to_string(kMaxSlots));
        }
        order.slots = *slots;
    } else if (flag == "--join-step" && value == "slurm") {
        order.is_slurm_step = true;
    } else if (flag == "--join-unlink") {
        order.own_file = value;
    } else if (flag == "--start-timeout") {
        const auto seconds = parse_number<double>(value);
        if (!seconds || !(*seconds >= 0 && *seconds <= kMaxSeconds)) {
            return wrong("--start-timeout " + std::string(value) + ": must be a number of seconds");
        }
        order.patience = std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
    } else {
        return wrong("unknown argument '" + std::string(flag) + "'");
    }
    return ok();
}

// ---- token ----

Result<wire::Key> read_token(const JoinOrder& order) {
    const auto where = order.token_file.empty() ? "the token on standard input" : order.token_file;
    UniqueFd file;
    int from = STDIN_FILENO;
    if (!order.token_file.empty()) {
        file = UniqueFd(::open(order.token_file.c_str(), O_RDONLY | O_CLOEXEC));
        if (!file) {
            return wrong(system_error(where, errno).message);
        }
        from = file.get();
    }
    std::string text;
    // One line: a terminal or srun may keep standard input open behind it.
    while (text.size() <= kMaxToken && text.find('\n') == std::string::npos) {
        std::array<char, kMaxToken> bytes{};
        const auto count = ::read(from, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return wrong(system_error(where, errno).message);
        }
        if (count == 0) {
            break;
        }
        text.append(bytes.data(), static_cast<std::size_t>(count));
    }
    auto key = wire::join_key(std::string_view(text).substr(0, text.find('\n')));
    return key ? std::move(key) : std::move(key).error().context(where);
}

// ---- connection ----

struct Joined {
    UniqueFd socket;
    wire::Seals seals;
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
Status hear_answer(int socket, wire::Opener& opener, Deadline deadline) {
    constexpr std::size_t kTagBytes = 16;
    std::vector<std::byte> plain;
    while (true) {
        HVD_TRY(auto record, receive(socket, sizeof(std::uint32_t), deadline));
        std::uint32_t length = 0;
        std::memcpy(&length, record.data(), sizeof length);
        if (length > 0 && length <= wire::kMaxRecord) {
            HVD_TRY(const auto rest, receive(socket, length + kTagBytes, deadline));
            record.insert(record.end(), rest.begin(), rest.end());
        }
        HVD_TRY(const auto opened, opener.open(record));
        plain.insert(plain.end(), opened.begin(), opened.end());
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
    Joined joined{.socket = std::move(socket), .seals = handshake.seals()};
    HVD_TRY_STATUS(send_all(joined.socket.get(),
                            joined.seals.sealer.seal(wire::encode(introduction)), deadline));
    HVD_TRY_STATUS(hear_answer(joined.socket.get(), joined.seals.opener, deadline));
    return joined;
}

/// Until somebody takes us: the launcher may be started after us.
Result<Joined> join_any(const JoinOrder& order,
                        const wire::Key& token,
                        const wire::Introduction& introduction) {
    const auto deadline = Deadline::in(order.patience);
    auto pause = kFirstPause;
    bool has_said = false;
    while (true) {
        std::string last;
        // Two rounds at least, where there is time for attempts that deserve the name.
        const auto share = std::max<Deadline::Clock::duration>(
            kShortestAttempt, order.patience / (2 * order.addresses.size()));
        for (const auto& address : order.addresses) {
            const auto attempt = Deadline::in(
                std::min<Deadline::Clock::duration>({kAttemptPatience, order.patience, share}));
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
            complain(introduction.name + " is waiting for " + last);
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
    complain(error.message);
    return error.code == Errc::timed_out ? kTimeLimit : kFailed;
}

}  // namespace

Result<JoinOrder> parse_join_order(std::span<const std::string_view> arguments) {
    JoinOrder order;
    while (!arguments.empty()) {
        if (arguments.size() < 2) {
            return wrong(std::string(arguments.front()) + ": unknown, or its value is missing");
        }
        HVD_TRY_STATUS(apply(order, arguments[0], arguments[1]));
        arguments = arguments.subspan(2);
    }
    if (order.addresses.empty()) {
        return wrong("--join ADDRESS:PORT is missing");
    }
    return order;
}

int run_joined_agent(const JoinOrder& order) {
    std::optional<FirstProcess> alone(std::in_place);  // until there is a guard
    const auto token = read_token(order);
    if (!token) {
        complain(token.error().message);
        return kUsage;
    }
    const auto hostname = own_name();
    if (!order.own_file.empty()) {
        remove_own_file(order.own_file);
    }
    const auto name = order.is_slurm_step ? leave_slurm_step() : hostname;
    const wire::Introduction introduction{.build_id = std::string(wire::build_id()),
                                          .name = order.name.empty() ? name : order.name,
                                          .hostname = hostname,
                                          .slots = order.slots};
    auto joined = join_any(order, *token, introduction);
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
    if (!order.is_slurm_step) {
        complain("joined as " + introduction.name);
    }
    alone.reset();
    return run_guarded_agent(joined->socket.release(), writing.release(), std::move(joined->seals),
                             order.is_slurm_step);
}

}  // namespace hvd::launch::agent
