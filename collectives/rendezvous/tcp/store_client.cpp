// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/tcp/store_client.hpp"

#include "collectives/base/unix_socket.hpp"
#include "collectives/rendezvous/tcp/session.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

namespace hvd::coll::store {
namespace {

using namespace std::chrono_literals;

constexpr auto kAttemptLimit = 5s;  // to connect, and to be answered
constexpr auto kPutLimit = 30s;
constexpr auto kAskLimit = 1s;  // for the missing ranks, when the time is over
constexpr auto kFirstPause = 20ms;
constexpr auto kLongestPause = 500ms;

Deadline sooner(Deadline a, Deadline b) {
    return b.is_never() || (!a.is_never() && *a.end() < *b.end()) ? a : b;
}

Error unavailable(std::string_view what, int error_number) {
    auto error = system_error(what, error_number);
    error.code = Errc::unavailable;
    return error;
}

Result<UniqueFd> connect(const net::IpAddress& ip, std::uint16_t port, Deadline deadline) {
    UniqueFd socket(
        ::socket(ip.is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) {
        return unavailable("socket", errno);
    }
    const auto at = net::to_socket_address(ip, port);
    if (::connect(socket.get(), at.get(), at.size) != 0 && errno != EINPROGRESS) {
        return unavailable("connect", errno);
    }
    HVD_TRY_STATUS(await_socket(socket.get(), POLLOUT, deadline));
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
        return unavailable("connect", error);
    }
    return socket;
}

class SocketStoreClient final : public StoreClient {
public:
    SocketStoreClient(UniqueFd socket,
                      std::unique_ptr<Authenticator> authenticator,
                      const std::string& job)
        : socket_(std::move(socket)),
          authenticator_(std::move(authenticator)),
          session_(Session::Side::client, *authenticator_, job) {}

    [[nodiscard]] Status greet(const Member& self, Deadline deadline) {
        HVD_TRY_STATUS(flush(deadline));
        while (!session_.is_ready()) {
            HVD_TRY_STATUS(read(deadline));
        }
        session_.send(encode(Request(self)));
        return flush(deadline);
    }

    [[nodiscard]] Status put(std::string_view key, std::span<const std::byte> value) override {
        const auto number = next_request_++;
        auto answer = ask(
            Put{.request = number, .key = std::string(key), .value = {value.begin(), value.end()}},
            number, Deadline::in(kPutLimit));
        if (!answer) {
            return std::move(answer).error().context("put \"" + std::string(key) + "\"");
        }
        return ok();
    }

    [[nodiscard]] Result<std::vector<std::byte>> get(std::string_view key,
                                                     Deadline deadline) override {
        const auto number = next_request_++;
        auto answer = ask(Get{.request = number, .key = std::string(key)}, number, deadline);
        if (!answer) {
            return std::move(answer).error().context("get \"" + std::string(key) + "\"");
        }
        return answer;
    }

    [[nodiscard]] Result<std::vector<Member>> membership(Deadline deadline) override {
        const auto number = next_request_++;
        auto answer =
            ask(Get{.request = number, .key = std::string(kMembershipKey)}, number, deadline);
        if (answer) {
            return decode_membership(*answer);
        }
        const bool is_own_end = answer.error().code == Errc::timed_out && !was_closed_;
        if (!is_own_end || !deadline.has_passed()) {
            return std::move(answer).error();
        }
        const auto question = next_request_++;
        HVD_TRY(const auto missing,
                ask(Absent{.request = question}, question, Deadline::in(kAskLimit)));
        return Error{Errc::timed_out, "these ranks have not come: " +
                                          std::string(reinterpret_cast<const char*>(missing.data()),
                                                      missing.size()) +
                                          std::string(kMoreTime)};
    }

private:
    [[nodiscard]] Status flush(Deadline deadline) {
        return send_all(socket_.get(), session_.take_output(), deadline);
    }

    [[nodiscard]] Status read(Deadline deadline) {
        std::array<std::byte, 16384> bytes{};
        auto size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        while (size < 0 && (errno == EAGAIN || errno == EINTR)) {
            HVD_TRY_STATUS(await_socket(socket_.get(), POLLIN, deadline));
            size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        }
        if (size < 0) {
            return unavailable("recv", errno);
        }
        if (size == 0) {
            return Error{Errc::unavailable,
                         "the connection was closed; the rank that serves the store may have "
                         "failed"};
        }
        HVD_TRY_STATUS(session_.feed(std::span(bytes).first(static_cast<std::size_t>(size))));
        return flush(deadline);
    }

    [[nodiscard]] Result<std::vector<std::byte>> next_message(Deadline deadline) {
        HVD_TRY(auto message, session_.next());
        while (!message) {
            HVD_TRY_STATUS(read(deadline));
            HVD_TRY(message, session_.next());
        }
        return std::move(*message);
    }

    [[nodiscard]] Result<std::vector<std::byte>> ask(const Request& request,
                                                     std::uint32_t number,
                                                     Deadline deadline) {
        session_.send(encode(request));
        HVD_TRY_STATUS(flush(deadline));
        while (true) {
            HVD_TRY(const auto message, next_message(deadline));
            HVD_TRY(auto reply, decode_reply(message));
            if (auto* failed = std::get_if<Failed>(&reply);
                failed != nullptr && (failed->request == number || failed->request == 0)) {
                was_closed_ = failed->request == 0;
                return Error{failed->code, std::move(failed->why)};
            }
            if (auto* value = std::get_if<Value>(&reply);
                value != nullptr && value->request == number) {
                return std::move(value->bytes);
            }
        }
    }

    UniqueFd socket_;
    std::unique_ptr<Authenticator> authenticator_;
    Session session_;
    std::uint32_t next_request_ = 1;
    bool was_closed_ = false;  // the server has told why; it may be gone by now
};

/// Nothing tells when a server on another host starts.
void pause(std::chrono::milliseconds length, Deadline deadline) {
    const auto limit = sooner(Deadline::in(length), deadline);
    (void)::poll(nullptr, 0, limit.poll_timeout_ms());
}

/// Attempts to join at one server.
struct Attempts {
    const ServerAddress& where;
    const std::string& job;
    const Credentials& credentials;
    const Member& self;

    [[nodiscard]] Result<std::unique_ptr<StoreClient>> make(const net::IpAddress& ip,
                                                            std::uint16_t port,
                                                            Deadline deadline) const {
        const auto limit = sooner(Deadline::in(kAttemptLimit), deadline);
        HVD_TRY(auto socket, connect(ip, port, limit));
        HVD_TRY(auto authenticator, create_authenticator(credentials));
        auto client =
            std::make_unique<SocketStoreClient>(std::move(socket), std::move(authenticator), job);
        HVD_TRY_STATUS(client->greet(self, limit));
        return std::unique_ptr<StoreClient>(std::move(client));
    }

    /// One at each port of each address: at some another program may listen. The last error, or the
    /// first of those that do not mend with time.
    [[nodiscard]] Result<std::unique_ptr<StoreClient>> make_all(Deadline deadline) const {
        Error last{Errc::unavailable, "it has no address"};
        std::optional<Error> lasting;
        for (std::size_t each = 0; each < where.ports.size() * where.ips.size(); ++each) {
            const auto port = where.ports[each / where.ips.size()];
            const auto& ip = where.ips[each % where.ips.size()];
            auto client = make(ip, port, deadline);
            if (client) {
                return client;
            }
            const net::ListenAddress at{.at = {.interface = {}, .ip = ip}, .port = port};
            last = std::move(client).error().context(to_string(at));
            if (is_final(last) && !lasting) {
                lasting = last;
            }
        }
        return lasting.value_or(last);
    }

    [[nodiscard]] static bool is_final(const Error& error) noexcept {
        return error.code == Errc::invalid_argument || error.code == Errc::unsupported;
    }
};

}  // namespace

Result<std::unique_ptr<StoreClient>> StoreClient::connect(const ServerAddress& where,
                                                          const std::string& job,
                                                          const Credentials& credentials,
                                                          const Member& self,
                                                          Deadline deadline) {
    const Attempts attempts{.where = where, .job = job, .credentials = credentials, .self = self};
    for (std::chrono::milliseconds length = kFirstPause;;
         length = std::min<std::chrono::milliseconds>(2 * length, kLongestPause)) {
        auto client = attempts.make_all(deadline);
        if (client) {
            return client;
        }
        auto error = std::move(client).error();
        if (Attempts::is_final(error)) {
            return std::move(error).context("the store server");
        }
        if (deadline.has_passed()) {
            return Error{Errc::timed_out, "rank " + std::to_string(self.rank) + " on host " +
                                              self.host + " found no store server of the job at " +
                                              where.name + " in time (" + error.message + ")"};
        }
        pause(length, deadline);
    }
}

}  // namespace hvd::coll::store
