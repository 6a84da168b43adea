// SPDX-License-Identifier: Apache-2.0
#include "collectives/meeting/point.hpp"

#include "collectives/meeting/book.hpp"
#include "collectives/meeting/session.hpp"

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

namespace hvd::coll::meeting {
namespace {

using namespace std::chrono_literals;
using Clock = Deadline::Clock;

constexpr auto kGreetingLimit = 10s;
constexpr auto kFarewellLimit = 5s;
constexpr std::size_t kSpareVisitors = 64;  // strangers, beside the ranks

Error unavailable(std::string_view what, int error_number) {
    auto error = system_error(what, error_number);
    error.code = Errc::unavailable;
    return error;
}

/// The thread of a point. Everything belongs to it.
class Service {
public:
    Service(Door door, int bell, int size, std::string job, Prover& prover)
        : door_(std::move(door)),
          bell_(bell),
          limit_(static_cast<std::size_t>(size) + kSpareVisitors),
          job_(std::move(job)),
          prover_(prover),
          book_(size) {}

    void run() {
        while (!is_over()) {
            wait();
            expire(Clock::now());
            std::erase_if(visitors_, [](const Visitor& visitor) { return visitor.is_gone; });
        }
        if (!book_.is_complete()) {
            for (const auto& letter : book_.farewell()) {
                post(letter);
            }
        }
    }

private:
    struct Visitor {
        std::size_t number = 0;
        UniqueFd socket;
        Session session;
        Deadline limit;
        std::vector<std::byte> out{};
        bool is_ending = false;  // once everything is sent
        bool is_gone = false;
    };

    [[nodiscard]] bool is_over() const {
        const bool somebody_is_left = std::ranges::any_of(
            visitors_, [&](const Visitor& visitor) { return book_.has_come(visitor.number); });
        return end_ && (!book_.is_complete() || !somebody_is_left || end_->has_passed());
    }

    [[nodiscard]] Deadline next_limit() const {
        auto next = end_.value_or(Deadline::never());
        for (const auto& visitor : visitors_) {
            if (!visitor.limit.is_never() &&
                (next.is_never() || *visitor.limit.end() < *next.end())) {
                next = visitor.limit;
            }
        }
        return next;
    }

    void wait() {
        std::vector<pollfd> polled{
            {.fd = end_ ? -1 : bell_, .events = POLLIN, .revents = 0},
            {.fd = end_ ? -1 : door_.socket.get(), .events = POLLIN, .revents = 0}};
        for (const auto& visitor : visitors_) {
            const auto wanted = POLLIN | (visitor.out.empty() ? 0 : POLLOUT);
            polled.push_back(
                {.fd = visitor.socket.get(), .events = static_cast<short>(wanted), .revents = 0});
        }
        if (::poll(polled.data(), polled.size(), next_limit().poll_timeout_ms()) <= 0) {
            return;
        }
        if (polled[0].revents != 0) {
            end_ = Deadline::in(kFarewellLimit);
        }
        auto at = polled.begin() + 2;
        for (auto& visitor : visitors_) {
            if ((at++)->revents != 0) {
                serve(visitor);
            }
        }
        if (polled[1].revents != 0) {
            accept();
        }
    }

    void accept() {
        UniqueFd socket(
            ::accept4(door_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            return;
        }
        if (visitors_.size() >= limit_) {
            // The oldest that has not shown who it is; a rank that is turned away so comes again.
            const auto oldest = std::ranges::find_if(
                visitors_, [&](const Visitor& visitor) { return !book_.has_come(visitor.number); });
            if (oldest == visitors_.end()) {
                return;
            }
            visitors_.erase(oldest);
        }
        visitors_.push_back({.number = next_number_++,
                             .socket = std::move(socket),
                             .session = Session(Session::Side::keeps, prover_, job_),
                             .limit = Deadline::in(kGreetingLimit)});
    }

    void serve(Visitor& visitor) {
        if (!visitor.is_ending && !read(visitor)) {
            leave(visitor);
            return;
        }
        flush(visitor);
    }

    /// False when the other end has gone.
    bool read(Visitor& visitor) {
        std::array<std::byte, 16384> bytes{};
        while (!visitor.is_ending) {
            const auto size = ::recv(visitor.socket.get(), bytes.data(), bytes.size(), 0);
            if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
                return false;
            }
            if (size < 0) {
                return true;
            }
            if (!visitor.session.feed(std::span(bytes).first(static_cast<std::size_t>(size)))) {
                visitor.is_ending = true;
            } else {
                take_requests(visitor);
            }
        }
        return true;
    }

    void take_requests(Visitor& visitor) {
        while (visitor.session.is_ready()) {
            const auto message = visitor.session.next();
            if (!message) {
                visitor.is_ending = true;
                return;
            }
            if (!*message) {
                return;
            }
            const auto request = decode_request(**message);
            if (!request) {
                visitor.is_ending = true;
                return;
            }
            for (const auto& letter : book_.on(visitor.number, *request)) {
                post(letter);
            }
            if (book_.has_come(visitor.number)) {
                visitor.limit = Deadline::never();
            }
        }
    }

    void post(const Book::Letter& letter) {
        const auto to = std::ranges::find(visitors_, letter.visitor, &Visitor::number);
        if (to != visitors_.end() && to->session.is_ready()) {
            to->session.send(encode(letter.reply));
            flush(*to);
        }
    }

    void flush(Visitor& visitor) {
        const auto more = visitor.session.take_output();
        visitor.out.insert(visitor.out.end(), more.begin(), more.end());
        while (!visitor.out.empty()) {
            const auto sent = ::send(visitor.socket.get(), visitor.out.data(), visitor.out.size(),
                                     MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent < 0 && errno == EINTR) {
                continue;
            }
            if (sent < 0) {
                if (errno != EAGAIN) {
                    leave(visitor);
                }
                return;
            }
            visitor.out.erase(visitor.out.begin(), visitor.out.begin() + sent);
        }
        if (visitor.is_ending) {
            leave(visitor);
        }
    }

    void leave(Visitor& visitor) {
        visitor.is_gone = true;
        book_.on_leave(visitor.number);
    }

    void expire(Clock::time_point now) {
        for (auto& visitor : visitors_) {
            if (visitor.limit.end().value_or(now + 1s) <= now) {
                leave(visitor);
            }
        }
    }

    Door door_;
    int bell_;
    std::size_t limit_;
    std::string job_;
    Prover& prover_;
    Book book_;
    std::list<Visitor> visitors_;
    std::size_t next_number_ = 0;
    std::optional<Deadline> end_;
};

Result<Door> bind_door(const std::optional<net::IpAddress>& address, std::uint16_t port) {
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
            return Door{.socket = std::move(socket), .port = ntohs(bound.sin6_port)};
        }
    }
    return unavailable("cannot listen at port " + std::to_string(port), errno);
}

}  // namespace

Result<std::unique_ptr<Prover>> create_prover(const Credentials& credentials) {
    switch (credentials.kind) {
        case ProofKind::none: return create_believer();
        case ProofKind::key: return create_key_prover(credentials.secret);
        case ProofKind::munge: return create_munge_prover(credentials.munge_socket);
    }
    return Error{Errc::internal, "unknown kind of proof"};
}

Result<Door> open_door(const std::optional<net::IpAddress>& address,
                       std::span<const std::uint16_t> ports) {
    std::optional<Error> last;
    for (const auto port : ports) {
        auto door = bind_door(address, port);
        if (door) {
            return door;
        }
        last = std::move(door).error();
    }
    return last.value_or(Error{Errc::internal, "no port to listen at"});
}

Point::Point(std::unique_ptr<Prover> prover, UniqueFd bell)
    : prover_(std::move(prover)), bell_(std::move(bell)) {}

Result<std::unique_ptr<Point>> Point::open(Door door,
                                           int size,
                                           std::string job,
                                           const Credentials& credentials) {
    HVD_TRY(auto prover, create_prover(credentials));
    UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell) {
        return unavailable("eventfd", errno);
    }
    std::unique_ptr<Point> point(new Point(std::move(prover), std::move(bell)));
    auto service = std::make_unique<Service>(std::move(door), point->bell_.get(), size,
                                             std::move(job), *point->prover_);
    point->thread_ = std::jthread([service = std::move(service)] { service->run(); });
    return point;
}

Point::~Point() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(bell_.get(), &one, sizeof one);
}

}  // namespace hvd::coll::meeting
