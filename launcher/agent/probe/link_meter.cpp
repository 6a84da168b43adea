// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/link_meter.hpp"

#include "collectives/base/text.hpp"
#include "collectives/transport/tcp/pending_connection.hpp"
#include "collectives/transport/tcp/rank_record.hpp"
#include "launcher/agent/probe/link_protocol.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace hvd::launch::agent {
namespace {

namespace net = coll::net;

/// An address that answers does so at once; one that is dropped on the way takes the whole limit.
constexpr auto kNextAddress = std::chrono::milliseconds(250);
constexpr auto kConnectLimit = std::chrono::seconds(3);  // after the last address was begun
constexpr auto kMeasureLimit = std::chrono::seconds(5);

constexpr std::size_t kRoundTrips = 200;
constexpr auto kEchoTime = std::chrono::milliseconds(100);  // at least one round trip
constexpr auto kStreamTime = std::chrono::milliseconds(100);
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
constexpr int kSendsPerTurn = 16;  // then the launcher is heard

std::string describe(const net::ListenAddress& endpoint) {
    return net::to_string(endpoint) + " (" + endpoint.at.interface + ")";
}

Error socket_error(int number) {
    return {Errc::unavailable, std::strerror(number)};  // NOLINT(concurrency-mt-unsafe): one thread
}

}  // namespace

void LinkMeter::measure(const wire::MeasureLink& wanted) {
    drop_all();
    result_ = wire::LinkMeasured{.id = wanted.id};
    if (auto planned = plan(wanted); !planned) {
        finish(planned.error().message);
        return;
    }
    start_next(std::chrono::steady_clock::now());
}

Status LinkMeter::plan(const wire::MeasureLink& wanted) {
    if (wanted.secret.size() != kSecretBytes) {
        return Error{Errc::internal, "the secret of a link has a wrong length"};
    }
    secret_ = wanted.secret;
    HVD_TRY(const auto filter, net::parse_interface_filter(wanted.interfaces));
    HVD_TRY(auto all, net::host_addresses());
    HVD_TRY(const auto own, net::allowed_addresses(std::move(all), filter));
    HVD_TRY(const auto record, net::decode_rank_record(wanted.record));
    candidates_ = net::candidates({}, own, record);
    if (candidates_.empty()) {
        std::vector<std::string> offered;
        for (const auto& endpoint : record.endpoints) {
            offered.push_back(describe(endpoint));
        }
        return Error{Errc::unavailable, "none of the addresses " + join(offered, ", ") +
                                            " can be told from the own ones; see "
                                            "--network-interfaces"};
    }
    return ok();
}

void LinkMeter::start_next(TimePoint now) {
    next_start_.reset();
    while (next_candidate_ < candidates_.size()) {
        const auto endpoint = candidates_[next_candidate_++];
        limit_ = now + kConnectLimit;
        auto socket = net::begin_connect(endpoint);
        if (!socket) {
            failures_.push_back(describe(endpoint) + ": " + socket.error().message);
            continue;
        }
        const int fd = socket->get();
        const auto attempt = attempts_.insert(
            attempts_.end(), Attempt{.endpoint = endpoint, .socket = std::move(*socket)});
        loop_.watch(fd, EPOLLIN | EPOLLOUT,
                    [this, attempt](std::uint32_t events) { on_ready(attempt, events); });
        if (next_candidate_ < candidates_.size()) {
            next_start_ = now + kNextAddress;
        }
        return;
    }
    if (attempts_.empty()) {
        finish(join(failures_, "; "));
    }
}

void LinkMeter::on_ready(Attempts::iterator attempt, std::uint32_t events) {
    if (attempt->stage == Stage::connecting) {
        if (auto status = connected(*attempt); !status) {
            fail(attempt, status.error().message);
        }
        return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        if (auto status = read(attempt); !status) {
            fail(attempt, status.error().message);
            return;
        }
    }
    if (is_in_use_ && !attempts_.empty() && attempts_.front().stage == Stage::streaming) {
        if (auto status = send_large(attempts_.front()); !status) {
            fail(attempts_.begin(), status.error().message);
        }
    }
}

Status LinkMeter::connected(Attempt& attempt) {
    int error = 0;
    socklen_t size = sizeof error;
    (void)::getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        return socket_error(error);
    }
    const int on = 1;
    (void)::setsockopt(attempt.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    attempt.stage = Stage::proving;
    loop_.change(attempt.socket.get(), EPOLLIN);
    // A new socket has room for it.
    if (::send(attempt.socket.get(), secret_.data(), kProofBytes, MSG_NOSIGNAL) !=
        static_cast<ssize_t>(kProofBytes)) {
        return socket_error(errno);
    }
    return ok();
}

Status LinkMeter::read(Attempts::iterator attempt) {
    std::array<std::byte, 512> buffer{};
    const auto size = ::recv(attempt->socket.get(), buffer.data(), buffer.size(), 0);
    if (size < 0) {
        return errno == EAGAIN || errno == EINTR ? ok() : Status(socket_error(errno));
    }
    if (size == 0) {
        return Error{Errc::unavailable, attempt->stage == Stage::proving
                                            ? "closed by a program that is not our agent"
                                            : "closed by the other end"};
    }
    attempt->in.insert(attempt->in.end(), buffer.begin(), buffer.begin() + size);
    take(attempt);
    return ok();
}

void LinkMeter::take(Attempts::iterator attempt) {
    auto& in = attempt->in;
    switch (attempt->stage) {
        case Stage::connecting: return;
        case Stage::proving:
            if (in.size() >= kProofBytes) {
                const auto wanted = std::span<const std::byte>(secret_).subspan(kProofBytes);
                if (in.size() > kProofBytes || !std::ranges::equal(in, wanted)) {
                    fail(attempt, "answered by a program that is not our agent");
                    return;
                }
                choose(attempt);
            }
            return;
        case Stage::echoing:
            if (in.size() >= kHeaderBytes) {
                in.clear();
                take_small(*attempt);
            }
            return;
        case Stage::streaming: take_large(*attempt); return;
    }
}

void LinkMeter::choose(Attempts::iterator attempt) {
    for (auto other = attempts_.begin(); other != attempts_.end();) {
        const auto next = std::next(other);
        if (other != attempt) {
            loop_.forget(other->socket.get());
            attempts_.erase(other);
        }
        other = next;
    }
    is_in_use_ = true;
    next_start_.reset();
    result_->address = describe(attempt->endpoint);
    stage_began_ = std::chrono::steady_clock::now();
    limit_ = stage_began_ + kMeasureLimit;
    attempt->stage = Stage::echoing;
    attempt->in.clear();
    send_small(*attempt);
}

void LinkMeter::send_small(Attempt& attempt) {
    constexpr std::array<std::byte, kHeaderBytes> kNoPayload{};
    asked_at_ = std::chrono::steady_clock::now();
    // One header is on its way at a time: there is room. If not, the time limit says so.
    (void)::send(attempt.socket.get(), kNoPayload.data(), kNoPayload.size(), MSG_NOSIGNAL);
}

void LinkMeter::take_small(Attempt& attempt) {
    const auto now = std::chrono::steady_clock::now();
    round_trips_ns_.push_back(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - asked_at_).count());
    if (round_trips_ns_.size() < kRoundTrips && now - stage_began_ < kEchoTime) {
        send_small(attempt);
        return;
    }
    const auto middle =
        round_trips_ns_.begin() + static_cast<std::ptrdiff_t>(round_trips_ns_.size() / 2);
    std::ranges::nth_element(round_trips_ns_, middle);
    result_->round_trip_ns = *middle;
    begin_stream(attempt);
}

void LinkMeter::begin_stream(Attempt& attempt) {
    constexpr std::uint64_t kPayload = kBlockBytes;
    static_assert(kPayload <= kMaxPayload);
    stream_.block.resize(kHeaderBytes + kBlockBytes);
    std::memcpy(stream_.block.data(), &kPayload, kHeaderBytes);
    attempt.stage = Stage::streaming;
    stage_began_ = std::chrono::steady_clock::now();
    loop_.change(attempt.socket.get(), EPOLLIN | EPOLLOUT);
}

Status LinkMeter::send_large(Attempt& attempt) {
    for (int turn = 0; turn < kSendsPerTurn && !stream_.is_over; ++turn) {
        const auto rest = std::span<const std::byte>(stream_.block).subspan(stream_.sent_of_block);
        const auto size = ::send(attempt.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
        if (size < 0) {
            return errno == EAGAIN || errno == EINTR ? ok() : Status(socket_error(errno));
        }
        stream_.sent_of_block += static_cast<std::size_t>(size);
        if (stream_.sent_of_block == stream_.block.size()) {
            stream_.sent_of_block = 0;
            ++stream_.blocks_sent;
            stream_.is_over = std::chrono::steady_clock::now() - stage_began_ >= kStreamTime;
        }
    }
    if (stream_.is_over) {
        loop_.change(attempt.socket.get(), EPOLLIN);
    }
    return ok();
}

void LinkMeter::take_large(Attempt& attempt) {
    const auto arrived = attempt.in.size() / kHeaderBytes;
    stream_.blocks_arrived += arrived;
    attempt.in.erase(attempt.in.begin(),
                     attempt.in.begin() + static_cast<std::ptrdiff_t>(arrived * kHeaderBytes));
    if (!stream_.is_over || stream_.blocks_arrived < stream_.blocks_sent) {
        return;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - stage_began_;
    result_->bytes_per_second = static_cast<std::uint64_t>(
        static_cast<double>(stream_.blocks_arrived * kBlockBytes) / took.count());
    finish("");
}

void LinkMeter::fail(Attempts::iterator attempt, const std::string& why) {
    failures_.push_back(describe(attempt->endpoint) + ": " + why);
    loop_.forget(attempt->socket.get());
    attempts_.erase(attempt);
    if (is_in_use_) {
        finish(join(failures_, "; "));
    } else if (next_candidate_ < candidates_.size() || attempts_.empty()) {
        start_next(std::chrono::steady_clock::now());
    }
}

std::optional<LinkMeter::TimePoint> LinkMeter::deadline() const {
    if (!result_) {
        return std::nullopt;
    }
    return next_start_ ? std::min(*next_start_, limit_) : limit_;
}

void LinkMeter::time_passed(TimePoint now) {
    if (result_ && next_start_ && now >= *next_start_) {
        start_next(now);
    }
    if (!result_ || now < limit_) {
        return;
    }
    for (const auto& attempt : attempts_) {
        failures_.push_back(describe(attempt.endpoint) + ": " + words_of_limit());
    }
    finish(join(failures_, "; "));
}

std::string LinkMeter::words_of_limit() const {
    if (!is_in_use_) {
        return "no answer within 3 s";
    }
    return result_->round_trip_ns > 0
               ? "small messages arrive, large ones do not within 5 s: compare the MTU of both ends"
               : "it connects, but nothing comes back within 5 s";
}

void LinkMeter::finish(std::string error) {
    auto result = *std::exchange(result_, std::nullopt);
    result.error = std::move(error);
    drop_all();
    done_(std::move(result));
}

void LinkMeter::drop_all() {
    for (const auto& attempt : attempts_) {
        loop_.forget(attempt.socket.get());
    }
    attempts_.clear();
    result_.reset();
    candidates_.clear();
    next_candidate_ = 0;
    next_start_.reset();
    failures_.clear();
    is_in_use_ = false;
    round_trips_ns_.clear();
    stream_ = {};
}

}  // namespace hvd::launch::agent
