// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/io/rank_socket.hpp"

#include "collectives/base/unix_socket.hpp"
#include "launcher/agent/io/clock.hpp"
#include "launcher/agent/processes/process_table.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

using coll::agent_message::Done;
using coll::agent_message::Failed;
using coll::agent_message::Get;
using coll::agent_message::Hello;
using coll::agent_message::Lost;
using coll::agent_message::Put;
using coll::agent_message::Report;
using coll::agent_message::Value;
using coll::agent_message::Welcome;

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxUnsent = 2 * coll::kMaxAgentFrame;

/// When a rank has ended: at most the largest message and what was cut off at both its ends.
constexpr int kLastReads = static_cast<int>(coll::kMaxAgentFrame / kReadBytes) + 2;

/// Connections that have not said who they are; the oldest makes place for a new one.
constexpr std::ptrdiff_t kMaxUnauthenticated = 64;

}  // namespace

RankSocket::RankSocket(EventLoop& loop,
                       ControlStream& control,
                       std::string job_id,
                       PidOfRank pid_of_rank)
    : loop_(loop),
      control_(control),
      job_id_(std::move(job_id)),
      pid_of_rank_(std::move(pid_of_rank)) {}

Status RankSocket::listen(const std::string& name) {
    HVD_TRY(auto listening, listen_abstract(name, SOCK_STREAM));
    if (listening.is_name_taken) {
        return Error{Errc::unavailable, "socket @" + name + " is in use by another process"};
    }
    listener_ = std::move(listening.socket);
    loop_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept(); });
    return ok();
}

void RankSocket::accept() {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
        if (errno == EMFILE || errno == ENFILE) {
            evict_unauthenticated();
        }
        return;
    }
    const auto peer = peer_credentials(fd.get());
    if (!peer || peer->uid != ::geteuid()) {
        return;
    }
    const auto unauthenticated =
        std::ranges::count_if(connections_, [](const auto& entry) { return !entry.second.rank; });
    if (unauthenticated >= kMaxUnauthenticated) {
        evict_unauthenticated();
    }
    const auto id = next_connection_++;
    auto& connection = connections_[id];
    connection.fd = std::move(fd);
    connection.pid = peer->pid;
    loop_.watch(connection.fd.get(), EPOLLIN,
                [this, id](std::uint32_t events) { on_ready(id, events); });
}

void RankSocket::evict_unauthenticated() {
    const auto oldest =
        std::ranges::find_if(connections_, [](const auto& entry) { return !entry.second.rank; });
    if (oldest != connections_.end()) {
        close(oldest->first);
    }
}

void RankSocket::on_ready(ConnectionId id, std::uint32_t epoll_events) {
    auto& connection = connections_.at(id);
    if ((epoll_events & EPOLLOUT) != 0) {
        write(connection);
    }
    if ((epoll_events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
        const bool is_open = read(connection) != ReadResult::end;
        // Bytes that came before the end count.
        if (!handle_messages(id) || !is_open) {
            close(id);
        }
    }
}

RankSocket::ReadResult RankSocket::read(Connection& connection) {
    std::array<std::byte, kReadBytes> bytes;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const auto count = ::recv(connection.fd.get(), bytes.data(), bytes.size(), 0);
    if (count > 0) {
        connection.reader.feed(std::span(bytes).first(static_cast<std::size_t>(count)));
        return ReadResult::some;
    }
    return count < 0 && (errno == EAGAIN || errno == EINTR) ? ReadResult::nothing : ReadResult::end;
}

bool RankSocket::handle_messages(ConnectionId id) {
    auto& connection = connections_.at(id);
    while (true) {
        auto message = connection.reader.next();
        if (!message) {
            return false;
        }
        if (!*message) {
            return true;
        }
        if (connection.rank) {
            pass_on(id, **message);
        } else if (greet(connection, **message)) {
            send(id, Welcome{.first_world = first_world_of(id)});
            for (const auto& lost : lost_) {
                send(id, lost);
            }
        } else {
            return false;
        }
    }
}

bool RankSocket::greet(Connection& connection, const coll::RankMessage& first) {
    const auto* hello = std::get_if<Hello>(&first);
    if (hello == nullptr) {
        return false;
    }
    auto identified = identify(connection, *hello);
    if (!identified) {
        // As far as the peer takes it at once: it is not authenticated.
        const auto frame = coll::encode(
            coll::AgentMessage{Failed{.request = 0, .why = identified.error().message}});
        (void)::send(connection.fd.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
        return false;
    }
    connection.rank = hello->rank;
    connection.lineage = *std::move(identified);
    reports_.welcome(hello->rank, connection.lineage);
    return true;
}

/// Errors: why the process is refused.
Result<std::vector<Process>> RankSocket::identify(const Connection& connection,
                                                  const Hello& hello) const {
    const auto refused = [](std::string why) { return Error{Errc::mismatch, std::move(why)}; };
    const auto who = "process " + std::to_string(connection.pid);
    if (hello.version != coll::kAgentProtocolVersion) {
        return refused(who + " speaks version " + std::to_string(hello.version) +
                       " of the protocol, this agent version " +
                       std::to_string(coll::kAgentProtocolVersion) +
                       "; horovodrun and the horovod package must be of one release");
    }
    if (hello.job_id != job_id_) {
        return refused(who + " belongs to job " + hello.job_id + ", this agent to job " + job_id_);
    }
    const auto rank_pid = pid_of_rank_(hello.rank);
    if (!rank_pid) {
        return refused("rank " + std::to_string(hello.rank) + " does not run on this host");
    }
    auto found = lineage(connection.pid, *rank_pid);
    if (found.empty()) {
        return refused(who + " is not rank " + std::to_string(hello.rank) + " (process " +
                       std::to_string(*rank_pid) + ") or below it");
    }
    return found;
}

/// The ranks count their worlds alike, but each process from 0. One that comes while another of its
/// rank is here gets the same number, and finds its keys taken.
std::uint32_t RankSocket::first_world_of(ConnectionId id) {
    const auto& connection = connections_.at(id);
    auto& worlds = worlds_[*connection.rank];
    const auto is_here = [&](const auto& entry) {
        pollfd other{entry.second.fd.get(), POLLRDHUP, 0};
        return entry.second.rank == connection.rank && entry.second.pid == worlds.pid &&
               ::poll(&other, 1, 0) == 0;
    };
    if (connection.pid != worlds.pid && std::ranges::none_of(connections_, is_here)) {
        worlds = {.pid = connection.pid, .first = worlds.next, .next = worlds.next};
    }
    return worlds.first;
}

void RankSocket::note_world(const Connection& connection, std::string_view key) {
    auto& worlds = worlds_[*connection.rank];
    const auto world = coll::world_of(key);
    if (world && connection.pid == worlds.pid) {
        worlds.next = std::max(worlds.next, static_cast<std::uint32_t>(*world) + 1);
    }
}

void RankSocket::pass_on(ConnectionId id, coll::RankMessage& message) {
    const auto& connection = connections_.at(id);
    const int rank = *connection.rank;
    if (auto* put = std::get_if<Put>(&message)) {
        note_world(connection, put->key);
        control_.send(wire::Put{.rank = rank,
                                .request = remember(id, put->request),
                                .key = std::move(put->key),
                                .value = std::move(put->value)});
    } else if (auto* get = std::get_if<Get>(&message)) {
        note_world(connection, get->key);
        control_.send(wire::Get{
            .rank = rank, .request = remember(id, get->request), .key = std::move(get->key)});
    } else if (auto* report = std::get_if<Report>(&message)) {
        const wire::RankReport told{
            .rank = rank, .time_ns = steady_clock_ns(), .report = std::move(*report)};
        if (reports_.admits(told, connection.lineage, std::chrono::steady_clock::now())) {
            control_.send(told);
        }
    }
}

void RankSocket::time_passed(std::chrono::steady_clock::time_point now) {
    const auto lives = [](const Process& process) {
        const auto found = read_process(process.pid);
        return found && found->start_time == process.start_time && found->state != 'Z';
    };
    for (const auto& report : reports_.take_due(now, lives)) {
        control_.send(report);
    }
}

std::uint32_t RankSocket::remember(ConnectionId id, std::uint32_t number) {
    // Connections count each for itself, and a rank may have several.
    const auto request = next_request_++;
    requests_[request] = {.connection = id, .number = number};
    return request;
}

void RankSocket::on(const wire::PutDone& done) {
    if (done.error.empty()) {
        answer(done.request, Done{});
    } else {
        answer(done.request, Failed{.request = 0, .why = done.error});
    }
}

void RankSocket::on(const wire::GetValue& value) {
    answer(value.request, Value{.request = 0, .value = value.value});
}

void RankSocket::on(const wire::PeerLost& lost) {
    lost_.push_back({.rank = lost.rank, .why = lost.why});
    for (auto& [id, connection] : connections_) {
        if (connection.rank && connection.rank != lost.rank) {
            send(id, lost_.back());
        }
    }
}

void RankSocket::answer(std::uint32_t request, coll::AgentMessage message) {
    const auto found = requests_.find(request);
    if (found == requests_.end()) {
        return;  // who asked is gone
    }
    const auto [connection, number] = found->second;
    requests_.erase(found);
    std::visit(
        [number = number](auto& alternative) {
            using Alternative = std::decay_t<decltype(alternative)>;
            if constexpr (!std::is_same_v<Alternative, Welcome> &&
                          !std::is_same_v<Alternative, Lost>) {
                alternative.request = number;
            }
        },
        message);
    send(connection, message);
}

void RankSocket::send(ConnectionId id, const coll::AgentMessage& message) {
    auto& connection = connections_.at(id);
    const auto frame = coll::encode(message);
    connection.unsent.insert(connection.unsent.end(), frame.begin(), frame.end());
    write(connection);
}

void RankSocket::write(Connection& connection) {
    auto& unsent = connection.unsent;
    const auto count = ::send(connection.fd.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
    const bool is_broken = count < 0 && errno != EAGAIN && errno != EINTR;
    unsent.erase(unsent.begin(), unsent.begin() + std::max<ssize_t>(count, 0));
    if (is_broken || unsent.size() > kMaxUnsent) {
        unsent.clear();
        (void)::shutdown(connection.fd.get(), SHUT_RDWR);  // closed when that is heard
    }
    if (connection.is_waiting_to_write == unsent.empty()) {
        connection.is_waiting_to_write = !unsent.empty();
        loop_.change(connection.fd.get(),
                     connection.is_waiting_to_write ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
}

void RankSocket::rank_ended(int rank) {
    std::vector<ConnectionId> ended;
    for (const auto& [id, connection] : connections_) {
        if (connection.rank == rank) {
            ended.push_back(id);
        }
    }
    for (const auto id : ended) {
        int reads = 0;  // bounded: a process that the rank left behind may go on writing
        while (reads < kLastReads && read(connections_.at(id)) == ReadResult::some) {
            ++reads;
        }
        (void)handle_messages(id);
        close(id);
    }
    for (const auto& report : reports_.rank_ended(rank)) {
        control_.send(report);
    }
}

void RankSocket::close(ConnectionId id) {
    const auto found = connections_.find(id);
    loop_.forget(found->second.fd.get());
    connections_.erase(found);
    std::erase_if(requests_, [id](const auto& entry) { return entry.second.connection == id; });
}

}  // namespace hvd::launch::agent
