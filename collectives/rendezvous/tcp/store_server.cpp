// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/tcp/store_server.hpp"

#include "collectives/rendezvous/tcp/registry.hpp"
#include "collectives/rendezvous/tcp/session.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <list>
#include <utility>

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvd::coll::store {
namespace {

using namespace std::chrono_literals;
using Clock = Deadline::Clock;

constexpr auto kGreetingLimit = 10s;
constexpr auto kLeaveLimit = 5s;
constexpr std::size_t kSpareConnections = 64;  // of other processes, beside the ranks

Error unavailable(std::string_view what, int error_number) {
    auto error = system_error(what, error_number);
    error.code = Errc::unavailable;
    return error;
}

/// The thread of a server. Everything belongs to it.
class Service {
public:
    Service(ServerSocket socket,
            int wakeup,
            int size,
            std::string job,
            Authenticator& authenticator)
        : listener_(std::move(socket)),
          wakeup_(wakeup),
          limit_(static_cast<std::size_t>(size) + kSpareConnections),
          job_(std::move(job)),
          authenticator_(authenticator),
          registry_(size) {}

    void run() {
        while (!is_over()) {
            wait();
            expire(Clock::now());
            std::erase_if(connections_,
                          [](const Connection& connection) { return connection.is_gone; });
        }
        if (!registry_.is_complete()) {
            for (const auto& reply : registry_.closing_replies()) {
                post(reply);
            }
        }
    }

private:
    struct Connection {
        std::size_t number = 0;
        UniqueFd socket;
        Session session;
        Deadline limit;
        std::vector<std::byte> out{};
        bool is_ending = false;  // once everything is sent
        bool is_gone = false;
    };

    [[nodiscard]] bool is_over() const {
        const bool is_rank_left = std::ranges::any_of(
            connections_,
            [&](const Connection& connection) { return registry_.has_joined(connection.number); });
        return end_ && (!registry_.is_complete() || !is_rank_left || end_->has_passed());
    }

    [[nodiscard]] Deadline next_limit() const {
        auto next = end_.value_or(Deadline::never());
        for (const auto& connection : connections_) {
            if (!connection.limit.is_never() &&
                (next.is_never() || *connection.limit.end() < *next.end())) {
                next = connection.limit;
            }
        }
        return next;
    }

    void wait() {
        std::vector<pollfd> polled{
            {.fd = end_ ? -1 : wakeup_, .events = POLLIN, .revents = 0},
            {.fd = end_ ? -1 : listener_.socket.get(), .events = POLLIN, .revents = 0}};
        for (const auto& connection : connections_) {
            const auto wanted = POLLIN | (connection.out.empty() ? 0 : POLLOUT);
            polled.push_back({.fd = connection.socket.get(),
                              .events = static_cast<short>(wanted),
                              .revents = 0});
        }
        if (::poll(polled.data(), polled.size(), next_limit().poll_timeout_ms()) <= 0) {
            return;
        }
        if (polled[0].revents != 0) {
            end_ = Deadline::in(kLeaveLimit);
        }
        auto at = polled.begin() + 2;
        for (auto& connection : connections_) {
            if ((at++)->revents != 0) {
                serve(connection);
            }
        }
        if (polled[1].revents != 0) {
            accept();
        }
    }

    void accept() {
        UniqueFd socket(
            ::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            return;
        }
        if (connections_.size() >= limit_) {
            // The oldest that has not authenticated itself; a rank that is refused like that comes
            // again.
            const auto oldest =
                std::ranges::find_if(connections_, [&](const Connection& connection) {
                    return !registry_.has_joined(connection.number);
                });
            if (oldest == connections_.end()) {
                return;
            }
            connections_.erase(oldest);
        }
        connections_.push_back({.number = next_number_++,
                                .socket = std::move(socket),
                                .session = Session(Session::Side::server, authenticator_, job_),
                                .limit = Deadline::in(kGreetingLimit)});
    }

    void serve(Connection& connection) {
        if (!connection.is_ending && !read(connection)) {
            leave(connection);
            return;
        }
        flush(connection);
    }

    /// False when the other end has closed the connection.
    bool read(Connection& connection) {
        std::array<std::byte, 16384> bytes{};
        while (!connection.is_ending) {
            const auto size = ::recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
            if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
                return false;
            }
            if (size < 0) {
                return true;
            }
            if (!connection.session.feed(std::span(bytes).first(static_cast<std::size_t>(size)))) {
                connection.is_ending = true;
            } else {
                take_requests(connection);
            }
        }
        return true;
    }

    void take_requests(Connection& connection) {
        while (connection.session.is_ready()) {
            const auto message = connection.session.next();
            if (!message) {
                connection.is_ending = true;
                return;
            }
            if (!*message) {
                return;
            }
            const auto request = decode_request(**message);
            if (!request) {
                connection.is_ending = true;
                return;
            }
            for (const auto& reply : registry_.on(connection.number, *request)) {
                post(reply);
            }
            if (registry_.has_joined(connection.number)) {
                connection.limit = Deadline::never();
            }
        }
    }

    void post(const Registry::AddressedReply& reply) {
        const auto to = std::ranges::find(connections_, reply.connection, &Connection::number);
        if (to != connections_.end() && to->session.is_ready()) {
            to->session.send(encode(reply.reply));
            flush(*to);
        }
    }

    void flush(Connection& connection) {
        const auto more = connection.session.take_output();
        connection.out.insert(connection.out.end(), more.begin(), more.end());
        while (!connection.out.empty()) {
            const auto sent = ::send(connection.socket.get(), connection.out.data(),
                                     connection.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent < 0 && errno == EINTR) {
                continue;
            }
            if (sent < 0) {
                if (errno != EAGAIN) {
                    leave(connection);
                }
                return;
            }
            connection.out.erase(connection.out.begin(), connection.out.begin() + sent);
        }
        if (connection.is_ending) {
            leave(connection);
        }
    }

    void leave(Connection& connection) {
        connection.is_gone = true;
        registry_.on_leave(connection.number);
    }

    void expire(Clock::time_point now) {
        for (auto& connection : connections_) {
            if (connection.limit.end().value_or(now + 1s) <= now) {
                leave(connection);
            }
        }
    }

    ServerSocket listener_;
    int wakeup_;
    std::size_t limit_;
    std::string job_;
    Authenticator& authenticator_;
    Registry registry_;
    std::list<Connection> connections_;
    std::size_t next_number_ = 0;
    std::optional<Deadline> end_;
};

Result<ServerSocket> bind_listener(const std::optional<net::IpAddress>& address,
                                   std::uint16_t port) {
    // Without an address: of both families, where there are both.
    const net::IpAddress any{.is_v6 = true};
    for (const auto& ip :
         address ? std::vector{*address} : std::vector{any, net::IpAddress{.is_v6 = false}}) {
        UniqueFd socket(
            ::socket(ip.is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (!socket) {
            continue;
        }
        const int on = 1;
        const int off = 0;
        (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (ip.is_v6 && !address) {
            (void)::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        }
        const auto at = net::to_socket_address(ip, port);
        if (::bind(socket.get(), at.get(), at.size) == 0 &&
            ::listen(socket.get(), SOMAXCONN) == 0) {
            sockaddr_in6 bound{};
            socklen_t size = sizeof bound;
            (void)::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size);
            return ServerSocket{.socket = std::move(socket), .port = ntohs(bound.sin6_port)};
        }
    }
    return unavailable("cannot listen at port " + std::to_string(port), errno);
}

}  // namespace

Result<ServerSocket> open_server_socket(const std::optional<net::IpAddress>& address,
                                        std::span<const std::uint16_t> ports) {
    std::optional<Error> last;
    for (const auto port : ports) {
        auto socket = bind_listener(address, port);
        if (socket) {
            return socket;
        }
        last = std::move(socket).error();
    }
    return last.value_or(Error{Errc::internal, "no port to listen at"});
}

StoreServer::StoreServer(std::unique_ptr<Authenticator> authenticator, UniqueFd wakeup)
    : authenticator_(std::move(authenticator)), wakeup_(std::move(wakeup)) {}

Result<std::unique_ptr<StoreServer>> StoreServer::open(ServerSocket socket,
                                                       int size,
                                                       std::string job,
                                                       const Credentials& credentials) {
    HVD_TRY(auto authenticator, create_authenticator(credentials));
    UniqueFd wakeup(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wakeup) {
        return unavailable("eventfd", errno);
    }
    std::unique_ptr<StoreServer> server(
        new StoreServer(std::move(authenticator), std::move(wakeup)));
    auto service = std::make_unique<Service>(std::move(socket), server->wakeup_.get(), size,
                                             std::move(job), *server->authenticator_);
    server->thread_ = std::jthread([service = std::move(service)] { service->run(); });
    return server;
}

StoreServer::~StoreServer() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wakeup_.get(), &one, sizeof one);
}

}  // namespace hvd::coll::store
