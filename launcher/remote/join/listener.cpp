// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/join/listener.hpp"

#include "collectives/transport/tcp/keep_alive.hpp"
#include "collectives/transport/tcp/port_holder.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/plan/gpu_shares.hpp"
#include "launcher/remote/open_files.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

namespace hvd::launch {
namespace {

/// A refused peer keeps its connection for this long, so that the reason arrives.
constexpr auto kRemovalDelay = std::chrono::milliseconds(50);
constexpr auto kPause = std::chrono::milliseconds(100);
constexpr std::size_t kMostSpokenOf =
    20;  // refusals; a flood of them is not to be a flood of words

int port_of(const SocketAddress& address) {
    return ntohs(address.storage.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(address.storage).sin_port);
}

void set_port(SocketAddress& address, int port) {
    const auto number = htons(static_cast<std::uint16_t>(port));
    if (address.storage.ss_family == AF_INET6) {
        reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = number;
    } else {
        reinterpret_cast<sockaddr_in&>(address.storage).sin_port = number;
    }
}

coll::net::IpAddress ip_of(const SocketAddress& address) {
    return coll::net::to_ip(reinterpret_cast<const sockaddr*>(&address.storage));
}

/// Nothing, and errno, where that fails.
UniqueFd listen_at(const SocketAddress& address) {
    UniqueFd socket(
        ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    constexpr int kOn = 1;
    // Connections of an earlier job that are not quite over do not keep the port.
    if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof kOn) != 0 ||
        ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) !=
            0 ||
        ::listen(socket.get(), SOMAXCONN) != 0) {
        const int error = errno;
        socket.reset();
        errno = error;
    }
    return socket;
}

/// Hands out the connections of those who joined, by the names of their hosts.
class JoinStarter final : public Starter {
public:
    JoinStarter(std::string_view name,
                std::map<std::string, std::unique_ptr<JoinConnection>> joined)
        : name_(name), joined_(std::move(joined)) {}

    [[nodiscard]] std::string_view name() const noexcept override { return name_; }

    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& host) override {
        const auto joined = joined_.find(host.name);
        if (joined == joined_.end()) {
            return Error{Errc::internal, host.name + " has not joined"};
        }
        auto connection = std::move(joined->second);
        if (!connection) {
            return Error{Errc::unavailable, "nobody here can start an agent on a host that joined"};
        }
        return std::unique_ptr<AgentChannel>(std::make_unique<JoinChannel>(std::move(connection)));
    }

private:
    std::string_view name_;
    std::map<std::string, std::unique_ptr<JoinConnection>> joined_;
};

}  // namespace

std::string to_string(const SocketAddress& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const auto port = ":" + std::to_string(port_of(address));
    if (address.storage.ss_family == AF_INET6) {
        const auto& six = reinterpret_cast<const sockaddr_in6&>(address.storage);
        (void)::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
        const auto scope = six.sin6_scope_id == 0 ? "" : "%" + std::to_string(six.sin6_scope_id);
        return "[" + std::string(text.data()) + scope + "]" + port;
    }
    const auto& four = reinterpret_cast<const sockaddr_in&>(address.storage);
    (void)::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
    return text.data() + port;
}

Result<std::unique_ptr<JoinListener>> JoinListener::open(IoThread& io,
                                                         JoinListenerOptions options) {
    const auto refuse = [&](int error) {
        auto why = system_error("--listen " + to_string(options.address), error).message;
        if (error == EADDRINUSE) {
            const auto holder = coll::net::tell_port_holder(
                ip_of(options.address), static_cast<std::uint16_t>(port_of(options.address)));
            why += "; " + (holder.empty() ? "another program" : holder) +
                   " has it: take another port, or 0 for any";
        } else if (error == EADDRNOTAVAIL) {
            why += "; it is no address of this machine";
        }
        return Error{Errc::invalid_argument, std::move(why)};
    };
    (void)raise_open_files();  // each host has two
    const bool is_any = port_of(options.address) == 0 && options.ports;
    const auto ports = is_any ? *options.ports : PortSpan{};
    UniqueFd socket;
    for (int port = ports.first; !socket && port <= ports.last; ++port) {
        if (is_any) {
            set_port(options.address, port);
        }
        socket = listen_at(options.address);
        if (!socket && (!is_any || errno != EADDRINUSE)) {
            return refuse(errno);
        }
    }
    if (!socket) {
        set_port(options.address, 0);
        const auto taken = coll::net::tell_port_holders(
            ip_of(options.address), {.first = static_cast<std::uint16_t>(ports.first),
                                     .last = static_cast<std::uint16_t>(ports.last)});
        return Error{Errc::invalid_argument,
                     "to be joined at " + to_string(options.address) + ": no port from " +
                         std::to_string(ports.first) + " to " + std::to_string(ports.last) +
                         " is free here" + taken + "; give --port-range more"};
    }
    SocketAddress address{.storage = {}, .size = sizeof(sockaddr_storage)};
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.size) !=
        0) {
        return refuse(errno);
    }
    return std::unique_ptr<JoinListener>(
        new JoinListener(io, std::move(options), std::move(socket), address));
}

JoinListener::JoinListener(IoThread& io,
                           JoinListenerOptions options,
                           UniqueFd socket,
                           const SocketAddress& address)
    : io_(io),
      options_(std::move(options)),
      address_(address),
      joined_(options_.expected),
      limit_(io),
      removal_(io),
      pause_(io) {
    socket_.emplace(io, std::move(socket));
}

void JoinListener::listen() {
    socket_->wait([this] { accept_all(); });
}

void JoinListener::accept_all() {
    while (!is_complete_) {
        SocketAddress from{.storage = {}, .size = sizeof(sockaddr_storage)};
        UniqueFd socket(::accept4(socket_->fd(), reinterpret_cast<sockaddr*>(&from.storage),
                                  &from.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (socket) {
            let_in(std::move(socket), from);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            pause_.set(io_.in(kPause), [this] { listen(); });
            return;
        } else if (errno == EAGAIN) {
            listen();
            return;
        }
        // Else it has gone before it was let in.
    }
}

void JoinListener::let_in(UniqueFd socket, const SocketAddress& from) {
    make_room();
    coll::net::keep_alive(socket.get());
    UniqueFd writing(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    if (!writing) {
        return;
    }
    auto& peer = peers_.emplace_back();
    peer.connection = std::make_unique<JoinConnection>(io_, std::move(socket), std::move(writing),
                                                       to_string(from));
    peer.connection->start(
        options_.token, kTimeout,
        {.on_introduced =
             [this, &peer](const wire::Introduction& introduction) {
                 on_introduced(peer, introduction);
             },
         .on_facts = [this, &peer](const HostFacts& facts) { on_facts(peer, facts); },
         .on_failed = [this, &peer](const Error& error) { on_failed(peer, error); }});
}

void JoinListener::make_room() {
    const auto is_unauthenticated = [](const Peer& peer) {
        return !peer.is_over && !peer.connection->is_proven();
    };
    const auto unauthenticated = std::ranges::count_if(peers_, is_unauthenticated);
    if (static_cast<std::size_t>(unauthenticated) >= kMaxUnauthenticated) {
        peers_.erase(std::ranges::find_if(peers_, is_unauthenticated));  // the oldest
    }
}

void JoinListener::on_introduced(Peer& peer, const wire::Introduction& introduction) {
    const auto& from = peer.connection->address();
    if (introduction.build_id != options_.build_id) {
        const auto why = "it is of build '" + introduction.build_id + "', horovodrun of build '" +
                         options_.build_id + "': install both from one build";
        refuse(peer, why);
        return;
    }
    auto name =
        joined_.admit({.name = introduction.name, .address = from, .slots = introduction.slots});
    if (!name) {
        refuse(peer, name.error().message);
        return;
    }
    peer.name = *std::move(name);
    peer.connection->welcome();
    options_.say(peer.name + " has joined from " + from + "; " + joined_.progress());
    finish_if_complete();
}

void JoinListener::refuse(Peer& peer, const std::string& why) const {
    peer.is_refused = true;
    options_.say("refused " + peer.connection->address() + ": " + why);
    peer.connection->refuse(why);
}

void JoinListener::on_facts(Peer& peer, const HostFacts& facts) {
    const auto visible = apply_gpu_mask(facts.gpus, facts.gpu_mask);
    joined_.count(peer.name, count_slots(options_.binding, facts, visible));
    finish_if_complete();
}

void JoinListener::on_failed(Peer& peer, const Error& error) {
    peer.is_over = true;
    if (!peer.name.empty()) {
        joined_.leave(peer.name);
        options_.say(peer.name + " (" + peer.connection->address() +
                     ") has left before the job began: " + error.message);
    } else if (!peer.is_refused) {
        report_refusal("refused " + peer.connection->address() + ": " + error.message);
    }
    if (std::exchange(is_removal_due_, true)) {
        return;
    }
    removal_.set(io_.in(kRemovalDelay), [this] {
        is_removal_due_ = false;
        std::erase_if(peers_, [](const Peer& one) { return one.is_over; });
    });
}

void JoinListener::report_refusal(const std::string& sentence) {
    ++refusals_;
    if (refusals_ < kMostSpokenOf) {
        options_.say(sentence);
    } else if (refusals_ == kMostSpokenOf) {
        options_.say(sentence + "; no more of these are told");
    }
}

void JoinListener::finish_if_complete() {
    if (!is_complete_ && joined_.is_complete()) {
        is_complete_ = true;
        io_.stop();
    }
}

void JoinListener::give_up(Error error) {
    error_ = std::move(error);
    io_.stop();
}

Result<Joined> JoinListener::gather(Deadline deadline, std::string_view remedy) {
    limit_.set(deadline, [this, remedy] {
        give_up({Errc::timed_out, "not all hosts joined within --start-timeout: " +
                                      joined_.progress() + "; " + std::string(remedy)});
    });
    listen();
    io_.run();
    limit_.cancel();
    removal_.cancel();
    pause_.cancel();
    socket_.reset();
    if (error_) {
        return *error_;
    }
    return take_joined();
}

Joined JoinListener::take_joined() {
    std::map<std::string, std::unique_ptr<JoinConnection>> joined;
    for (auto& peer : peers_) {
        if (!peer.name.empty() && !peer.is_over) {
            peer.connection->hold();
            joined.emplace(peer.name, std::move(peer.connection));
        }
    }
    peers_.clear();
    return {.hosts = joined_.hosts(),
            .starter = std::make_unique<JoinStarter>(options_.starter, std::move(joined))};
}

}  // namespace hvd::launch
