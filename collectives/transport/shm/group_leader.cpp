// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/group_leader.hpp"

#include "collectives/base/process_ancestry.hpp"
#include "collectives/base/random_id.hpp"
#include "collectives/base/text.hpp"
#include "collectives/rendezvous/store.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace hvd::coll {
namespace {

using namespace std::chrono_literals;
using join_message::Go;
using join_message::Hello;
using join_message::Members;
using join_message::Message;
using join_message::Refused;

constexpr auto kPendingLimit = 5s;
constexpr std::size_t kMaxPending = 256;
constexpr std::size_t kMaxRefusals = 8;
constexpr std::size_t kMembersPerPacket = (kMaxPacketFds - 1) / 2;

[[nodiscard]] std::string rank_and_pid(int rank, pid_t pid) {
    return "local rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + ")";
}

/// Takes as long whatever the bytes are.
[[nodiscard]] bool are_equal(std::span<const std::byte> one, std::span<const std::byte> other) {
    if (one.size() != other.size()) {
        return false;
    }
    auto difference = std::byte{0};
    for (std::size_t index = 0; index < one.size(); ++index) {
        difference |= one[index] ^ other[index];
    }
    return difference == std::byte{0};
}

}  // namespace

GroupLeader::GroupLeader(const LocalGroupOptions& options, Deadline deadline)
    : options_(options), deadline_(deadline), failures_(options.failures), name_(options.name) {
    members_.resize(static_cast<std::size_t>(options.size));
}

Result<std::unique_ptr<LocalGroupParts>> GroupLeader::run() {
    if (auto gathered = gather(); !gathered) {
        tell_members(gathered.error());
        return std::move(gathered).error();
    }
    auto parts = std::make_unique<LocalGroupParts>();
    parts->memory = std::make_shared<SharedMemory>(std::move(*memory_));
    for (auto& member : members_) {
        parts->peers.push_back(std::move(member->peer));
    }
    parts->peers.front().pidfd.reset();
    return parts;
}

Status GroupLeader::gather() {
    HVD_TRY_STATUS(create_own());
    if (options_.size == 1) {
        return ok();
    }
    HVD_TRY_STATUS(listen());
    while (!is_complete()) {
        HVD_TRY_STATUS(wait_and_handle());
    }
    // Before a member can leave again and come back for the next group of the same name.
    listener_.reset();
    pending_.clear();
    return distribute();
}

Status GroupLeader::create_own() {
    auto& self = members_.front().emplace();
    self.peer.pid = ::getpid();
    HVD_TRY(self.peer.wakeup, make_wakeup());
    HVD_TRY(self.peer.pidfd, open_pidfd(self.peer.pid));
    HVD_TRY(memory_fd_, SharedMemory::create(options_.size, options_.segments));
    HVD_TRY(auto memory, SharedMemory::map(memory_fd_.get(), options_.size, options_.segments));
    memory_.emplace(std::move(memory));
    return ok();
}

/// With a key the name is a secret of the job. Without one it could be guessed: another user could
/// hold it, so that it gets a random end, and members look for it by its beginning.
Status GroupLeader::listen() {
    if (options_.key.empty()) {
        HVD_TRY(const auto id, random_id());
        name_ += "/" + id;
    }
    HVD_TRY(auto listening, listen_abstract(name_, SOCK_SEQPACKET));
    if (!listening.is_name_taken) {
        listener_ = std::move(listening.socket);
    }
    if (const auto other = find_other_leader()) {
        return Error{Errc::invalid_argument,
                     "local rank 0 came twice: pid " + std::to_string(other->pid) + " (user " +
                         std::to_string(other->uid) + ") listens at a socket @" + options_.name +
                         ", and pid " + std::to_string(::getpid()) + " wants to"};
    }
    return listener_ ? ok()
                     : Status(Error{Errc::unavailable, "the socket @" + name_ + " is in use"});
}

/// Another process of this user that listens as local rank 0 of this group.
std::optional<PeerCredentials> GroupLeader::find_other_leader() const {
    auto names = listener_ ? std::vector<std::string>{} : std::vector{name_};
    if (options_.key.empty()) {
        names = listening_abstract_names(options_.name + "/");
    }
    for (const auto& name : names) {
        const auto socket = name == name_ && listener_
                                ? Result<UniqueFd>(UniqueFd())
                                : connect_abstract(name, SOCK_SEQPACKET | SOCK_NONBLOCK, deadline_);
        const auto owner = socket && *socket ? peer_credentials(socket->get())
                                             : Result<PeerCredentials>(PeerCredentials{});
        if (owner && owner->pid != 0 && owner->uid == ::geteuid()) {
            return *owner;
        }
    }
    return std::nullopt;
}

bool GroupLeader::is_complete() const {
    return std::ranges::all_of(members_, [](const auto& member) { return member.has_value(); });
}

// ---- pending connections
// --------------------------------------------------------------------------

/// The listener, the pending connections, a place for every rank, and the failure detector.
std::vector<pollfd> GroupLeader::descriptors() const {
    std::vector<pollfd> all{{listener_.get(), POLLIN, 0}};
    for (const auto& pending : pending_) {
        all.push_back({pending.socket.get(), POLLIN, 0});
    }
    for (const auto& member : members_) {
        all.push_back({member && member->socket ? member->socket.get() : -1, POLLIN, 0});
    }
    all.push_back({failures_ != nullptr ? failures_->failure_descriptor() : -1, POLLIN, 0});
    return all;
}

Deadline GroupLeader::next_deadline() const {
    auto next = deadline_;
    for (const auto& pending : pending_) {
        if (next.is_never() || *pending.deadline.end() < *next.end()) {
            next = pending.deadline;
        }
    }
    return next;
}

Status GroupLeader::wait_and_handle() {
    HVD_TRY_STATUS(check_failures(failures_));
    auto ready = descriptors();
    (void)::poll(ready.data(), ready.size(), next_deadline().poll_timeout_ms());
    if (deadline_.has_passed()) {
        return Error{Errc::timed_out, missing_ranks()};
    }
    const auto pending_count = pending_.size();
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
        if (ready[1 + pending_count + rank].revents != 0) {
            return Error{Errc::unavailable,
                         rank_and_pid(static_cast<int>(rank), members_[rank]->peer.pid) +
                             " left before all ranks of this host had met"};
        }
    }
    for (std::size_t index = pending_count; index-- > 0;) {
        if (ready[1 + index].revents != 0 || pending_[index].deadline.has_passed()) {
            auto pending = std::move(pending_[index]);
            pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
            authenticate(std::move(pending));
        }
    }
    if (ready.front().revents != 0) {
        accept_pending();
    }
    return ok();
}

void GroupLeader::accept_pending() {
    while (pending_.size() < kMaxPending) {
        UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) {
            return;
        }
        const auto credentials = peer_credentials(socket.get());
        if (!credentials) {
            continue;
        }
        if (credentials->uid != ::geteuid()) {
            refuse(socket, credentials->pid,
                   "it belongs to user " + std::to_string(credentials->uid) + ", the job to user " +
                       std::to_string(::geteuid()));
            continue;
        }
        pending_.push_back({std::move(socket), *credentials, Deadline::in(kPendingLimit)});
    }
}

/// The connection has sent its hello, was closed, or has been silent for too long.
void GroupLeader::authenticate(Pending pending) {
    const pid_t pid = pending.credentials.pid;
    auto packet = receive_packet(pending.socket.get(), Deadline::in(0s));
    if (!packet) {
        note(pid, "it connected and said nothing");
        return;
    }
    const auto message = join_message::decode(packet->bytes);
    const auto* hello = message ? std::get_if<Hello>(&*message) : nullptr;
    if (hello == nullptr || packet->fds.size() != 1) {
        note(pid, "it does not speak this protocol");
        return;
    }
    if (const auto why = why_not(*hello, pid)) {
        refuse(pending.socket, pid, *why);
        return;
    }
    auto pidfd = open_pidfd(pid);
    if (!pidfd) {
        refuse(pending.socket, pid, pidfd.error().message);
        return;
    }
    members_[static_cast<std::size_t>(hello->rank)] =
        Member{.socket = std::move(pending.socket),
               .peer = {.pid = pid,
                        .wakeup = std::move(packet->fds.front()),
                        .pidfd = std::move(pidfd).value()}};
}

/// Why the process is not a rank of this job, or nothing.
std::optional<std::string> GroupLeader::why_not(const Hello& hello, pid_t pid) const {
    if (!are_equal(hello.key, options_.key)) {
        return "it does not have this job's key, so it belongs to another job";
    }
    if (options_.key.empty()) {
        // An ancestor that both have while both live is one process: no number was used again.
        const auto launcher = launcher_of(options_);
        if (hello.launcher != launcher || !is_ancestor(launcher, pid)) {
            return "process " + std::to_string(launcher) +
                   ", which started this job, did not start it: it belongs to another job";
        }
    }
    if (hello.size != options_.size || hello.rank < 1 || hello.rank >= hello.size) {
        return "it is local rank " + std::to_string(hello.rank) + " of " +
               std::to_string(hello.size) + ", but local rank 0 counts " +
               std::to_string(options_.size) + " ranks on this host";
    }
    if (!std::ranges::equal(hello.segments, options_.segments)) {
        return "it shares memory of other sizes: the ranks must run one release of the library "
               "with equal settings";
    }
    if (const auto& first = members_[static_cast<std::size_t>(hello.rank)]) {
        return "local rank " + std::to_string(hello.rank) + " came twice: pid " +
               std::to_string(first->peer.pid) + " and pid " + std::to_string(pid);
    }
    return std::nullopt;
}

void GroupLeader::refuse(const UniqueFd& socket, pid_t pid, const std::string& why) {
    note(pid, why);
    const Message refusal =
        Refused{Errc::invalid_argument, "process " + std::to_string(pid) +
                                            " was refused by local rank 0 (pid " +
                                            std::to_string(::getpid()) + "): " + why};
    // The process may have stopped reading.
    (void)send_packet(socket.get(), encode(refusal), {}, Deadline::in(0s));
}

void GroupLeader::note(pid_t pid, const std::string& why) {
    if (refusals_.size() < kMaxRefusals) {
        refusals_.push_back("process " + std::to_string(pid) + " was refused: " + why);
    }
}

std::string GroupLeader::missing_ranks() const {
    std::vector<int> missing;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
        if (!members_[rank]) {
            missing.push_back(world_rank_of(options_, static_cast<int>(rank)));
        }
    }
    auto text = describe_missing(missing) + " (socket @" + name_ + ") in time";
    for (const auto& refusal : refusals_) {
        text += "; " + refusal;
    }
    return text.append(kMoreTime);
}

// ---- the members --------------------------------------------------------------------------------

/// One rank after the other gets everything: descriptors in flight count against a limit of the
/// user.
Status GroupLeader::distribute() {
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
        auto sent = send_descriptors(members_[rank]->socket.get());
        if (!sent) {
            return std::move(sent).error().context(
                rank_and_pid(static_cast<int>(rank), members_[rank]->peer.pid));
        }
    }
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
        HVD_TRY_STATUS(send_packet(members_[rank]->socket.get(), encode(Go{}), {}, deadline_));
    }
    return ok();
}

Status GroupLeader::send_descriptors(int socket) const {
    for (std::size_t first = 0; first < members_.size(); first += kMembersPerPacket) {
        const auto end = std::min(first + kMembersPerPacket, members_.size());
        Members message{.first = static_cast<std::int32_t>(first), .pids = {}};
        std::vector<int> fds;
        if (first == 0) {
            fds.push_back(memory_fd_.get());
        }
        for (std::size_t rank = first; rank < end; ++rank) {
            const auto& peer = members_[rank]->peer;
            message.pids.push_back(peer.pid);
            fds.push_back(peer.wakeup.get());
            fds.push_back(peer.pidfd.get());
        }
        HVD_TRY_STATUS(send_packet(socket, encode(std::move(message)), fds, deadline_));
        HVD_TRY(const auto packet, receive_packet(socket, deadline_));
        HVD_TRY(const auto answer, join_message::decode(packet.bytes));
        if (const auto* refused = std::get_if<Refused>(&answer)) {
            return Error{refused->code, refused->text};
        }
    }
    return ok();
}

void GroupLeader::tell_members(const Error& error) const {
    for (const auto& member : members_) {
        if (member && member->socket) {
            (void)send_packet(member->socket.get(), encode(Refused{error.code, error.message}), {},
                              Deadline::in(0s));
        }
    }
}

}  // namespace hvd::coll
