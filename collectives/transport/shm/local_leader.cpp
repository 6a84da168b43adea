// SPDX-License-Identifier: Apache-2.0
//
// Local rank 0's side of the meeting. Whoever connects is a guest until its hello proves that it is
// a rank of this job; a guest can neither delay nor end the meeting.
#include "collectives/base/process_ancestry.hpp"
#include "collectives/base/text.hpp"
#include "collectives/base/unix_socket.hpp"
#include "collectives/rendezvous/store.hpp"
#include "collectives/transport/shm/join_messages.hpp"
#include "collectives/transport/shm/local_parts.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvd::coll {
namespace {

using namespace std::chrono_literals;
using join_message::decode;
using join_message::encode;
using join_message::Go;
using join_message::Hello;
using join_message::Members;
using join_message::Refused;

constexpr auto kGuestLimit = 5s;
constexpr std::size_t kMaxGuests = 256;
constexpr std::size_t kMaxNotes = 8;
constexpr std::size_t kMembersPerPacket = (kMaxPacketFds - 1) / 2;

struct Guest {
    UniqueFd socket;
    PeerCredentials credentials;
    Deadline deadline;
};

struct Member {
    UniqueFd socket;  // none for the leader itself
    LocalMember parts;
};

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

class Leader {
public:
    Leader(const LocalGroupOptions& meeting, Deadline deadline)
        : meeting_(meeting), deadline_(deadline), news_(meeting.news) {
        members_.resize(static_cast<std::size_t>(meeting.local_size));
    }

    [[nodiscard]] Result<std::unique_ptr<LocalGroupParts>> run() {
        auto met = meet();
        if (!met) {
            tell_members(met.error());
            return std::move(met).error();
        }
        auto parts = std::make_unique<LocalGroupParts>();
        parts->rank = 0;
        parts->memory = std::make_shared<SharedMemory>(std::move(*memory_));
        for (auto& member : members_) {
            parts->members.push_back(std::move(member->parts));
        }
        parts->members.front().pidfd.reset();
        return parts;
    }

private:
    [[nodiscard]] Status meet() {
        auto& self = members_.front().emplace();
        self.parts.pid = ::getpid();
        HVD_TRY(self.parts.bell, make_wakeup());
        HVD_TRY(self.parts.pidfd, open_pidfd(self.parts.pid));
        HVD_TRY(memory_fd_, SharedMemory::create(meeting_.local_size, meeting_.segments));
        HVD_TRY(auto memory,
                SharedMemory::map(memory_fd_.get(), meeting_.local_size, meeting_.segments));
        memory_.emplace(std::move(memory));
        if (meeting_.local_size == 1) {
            return ok();
        }
        HVD_TRY_STATUS(listen());
        while (!is_complete()) {
            HVD_TRY_STATUS(admit_some());
        }
        // Before anybody can leave again and come back for a next meeting of the same name.
        listener_.reset();
        guests_.clear();
        return distribute();
    }

    [[nodiscard]] Status listen() {
        HVD_TRY(auto listening, listen_abstract(meeting_.socket, SOCK_SEQPACKET));
        if (!listening.is_name_taken) {
            listener_ = std::move(listening.socket);
            return ok();
        }
        // Whoever listens there is another local rank 0, or pretends to be.
        HVD_TRY(const auto other, connect_abstract(meeting_.socket, SOCK_SEQPACKET, deadline_));
        PeerCredentials credentials;
        if (other) {
            HVD_TRY(credentials, peer_credentials(other.get()));
        }
        return Error{Errc::invalid_argument,
                     "local rank 0 came twice: pid " + std::to_string(credentials.pid) + " (user " +
                         std::to_string(credentials.uid) + ") holds the socket @" +
                         meeting_.socket + ", and pid " + std::to_string(::getpid()) + " wants it"};
    }

    [[nodiscard]] bool is_complete() const {
        return std::all_of(members_.begin(), members_.end(),
                           [](const auto& member) { return member.has_value(); });
    }

    /// Waits for something to happen and handles it.
    [[nodiscard]] Status admit_some() {
        HVD_TRY_STATUS(coll::hear(news_));
        std::vector<pollfd> ready{{listener_.get(), POLLIN, 0}};
        auto deadline = deadline_;
        for (const auto& guest : guests_) {
            ready.push_back({guest.socket.get(), POLLIN, 0});
            if (deadline.is_never() || *guest.deadline.end() < *deadline.end()) {
                deadline = guest.deadline;
            }
        }
        for (const auto& member : members_) {
            ready.push_back({member && member->socket ? member->socket.get() : -1, POLLIN, 0});
        }
        if (news_ != nullptr) {
            ready.push_back({news_->failure_descriptor(), POLLIN, 0});
        }
        (void)::poll(ready.data(), ready.size(), deadline.poll_timeout_ms());
        if (deadline_.has_passed()) {
            return Error{Errc::timed_out, missing_ranks()};
        }
        const auto guest_count = guests_.size();
        for (std::size_t rank = 1; rank < members_.size(); ++rank) {
            if (ready[1 + guest_count + rank].revents != 0) {
                return Error{Errc::unavailable,
                             rank_and_pid(static_cast<int>(rank), members_[rank]->parts.pid) +
                                 " left before all ranks of this host had met"};
            }
        }
        for (std::size_t index = guest_count; index-- > 0;) {
            if (ready[1 + index].revents != 0 || guests_[index].deadline.has_passed()) {
                auto guest = std::move(guests_[index]);
                guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(index));
                hear(std::move(guest));
            }
        }
        if (ready.front().revents != 0) {
            accept_guests();
        }
        return ok();
    }

    void accept_guests() {
        while (guests_.size() < kMaxGuests) {
            UniqueFd socket(
                ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (!socket) {
                return;
            }
            const auto credentials = peer_credentials(socket.get());
            if (!credentials) {
                continue;
            }
            if (credentials->uid != ::geteuid()) {
                refuse(socket, credentials->pid,
                       "it belongs to user " + std::to_string(credentials->uid) +
                           ", the job to user " + std::to_string(::geteuid()));
                continue;
            }
            guests_.push_back(Guest{std::move(socket), *credentials, Deadline::in(kGuestLimit)});
        }
    }

    /// The guest has spoken, left, or been silent for too long.
    void hear(Guest guest) {
        auto packet = receive_packet(guest.socket.get(), Deadline::in(0s));
        if (!packet) {
            note(guest.credentials.pid, "it connected and said nothing");
            return;
        }
        const auto message = decode(packet->bytes);
        const auto* hello = message ? std::get_if<Hello>(&*message) : nullptr;
        if (hello == nullptr || packet->fds.size() != 1) {
            note(guest.credentials.pid, "it does not speak this protocol");
            return;
        }
        if (const auto why = why_not(*hello, guest.credentials.pid)) {
            refuse(guest.socket, guest.credentials.pid, *why);
            return;
        }
        auto pidfd = open_pidfd(guest.credentials.pid);
        if (!pidfd) {
            refuse(guest.socket, guest.credentials.pid, pidfd.error().message);
            return;
        }
        auto& member = members_[static_cast<std::size_t>(hello->rank)].emplace();
        member.socket = std::move(guest.socket);
        member.parts.pid = guest.credentials.pid;
        member.parts.bell = std::move(packet->fds.front());
        member.parts.pidfd = std::move(*pidfd);
    }

    /// Why the process is not a rank of this job, or nothing.
    [[nodiscard]] std::optional<std::string> why_not(const Hello& hello, pid_t pid) const {
        if (!are_equal(hello.key, meeting_.key)) {
            return "it does not have this job's key, so it belongs to another job";
        }
        if (meeting_.key.empty()) {
            // An ancestor that both have while both live is one process: no number was used again.
            const auto launcher = launcher_of(meeting_);
            if (hello.launcher != launcher || !is_ancestor(launcher, pid)) {
                return "process " + std::to_string(launcher) +
                       ", which started this job, did not start it: it belongs to another job";
            }
        }
        if (hello.size != meeting_.local_size || hello.rank < 1 || hello.rank >= hello.size) {
            return "it is local rank " + std::to_string(hello.rank) + " of " +
                   std::to_string(hello.size) + ", but local rank 0 counts " +
                   std::to_string(meeting_.local_size) + " ranks on this host";
        }
        if (!std::equal(hello.segments.begin(), hello.segments.end(), meeting_.segments.begin(),
                        meeting_.segments.end())) {
            return "it shares memory of other sizes: the ranks must run one release of the "
                   "library with equal settings";
        }
        if (const auto& first = members_[static_cast<std::size_t>(hello.rank)]) {
            return "local rank " + std::to_string(hello.rank) + " came twice: pid " +
                   std::to_string(first->parts.pid) + " and pid " + std::to_string(pid);
        }
        return std::nullopt;
    }

    void refuse(const UniqueFd& socket, pid_t pid, const std::string& why) {
        note(pid, why);
        const auto text = "process " + std::to_string(pid) + " was refused by local rank 0 (pid " +
                          std::to_string(::getpid()) + "): " + why;
        // Whether it still listens is its own affair.
        (void)send_packet(socket.get(), encode(Refused{Errc::invalid_argument, text}), {},
                          Deadline::in(0s));
    }

    void note(pid_t pid, const std::string& why) {
        if (notes_.size() < kMaxNotes) {
            notes_.push_back("process " + std::to_string(pid) + " was refused: " + why);
        }
    }

    [[nodiscard]] std::string missing_ranks() const {
        std::vector<int> missing;
        for (std::size_t rank = 0; rank < members_.size(); ++rank) {
            if (!members_[rank]) {
                missing.push_back(static_cast<int>(rank));
            }
        }
        auto text = "local ranks " + format_ranges(missing) + " of " +
                    std::to_string(members_.size()) + " did not come to hvd.init() (socket @" +
                    meeting_.socket + ") in time";
        for (const auto& line : notes_) {
            text += "; " + line;
        }
        return text.append(kMoreTime);
    }

    /// Everything to everybody, one rank after the other: descriptors on their way count against a
    /// limit of the user.
    [[nodiscard]] Status distribute() {
        for (std::size_t rank = 1; rank < members_.size(); ++rank) {
            auto given = give_everything_to(members_[rank]->socket.get());
            if (!given) {
                return std::move(given).error().context(
                    rank_and_pid(static_cast<int>(rank), members_[rank]->parts.pid));
            }
        }
        for (std::size_t rank = 1; rank < members_.size(); ++rank) {
            HVD_TRY_STATUS(send_packet(members_[rank]->socket.get(), encode(Go{}), {}, deadline_));
        }
        return ok();
    }

    [[nodiscard]] Status give_everything_to(int socket) const {
        for (std::size_t first = 0; first < members_.size(); first += kMembersPerPacket) {
            const auto end = std::min(first + kMembersPerPacket, members_.size());
            Members message{.first = static_cast<std::int32_t>(first), .pids = {}};
            std::vector<int> fds;
            if (first == 0) {
                fds.push_back(memory_fd_.get());
            }
            for (std::size_t rank = first; rank < end; ++rank) {
                const auto& parts = members_[rank]->parts;
                message.pids.push_back(parts.pid);
                fds.push_back(parts.bell.get());
                fds.push_back(parts.pidfd.get());
            }
            HVD_TRY_STATUS(send_packet(socket, encode(std::move(message)), fds, deadline_));
            HVD_TRY(const auto packet, receive_packet(socket, deadline_));
            HVD_TRY(const auto answer, decode(packet.bytes));
            if (const auto* refused = std::get_if<Refused>(&answer)) {
                return Error{refused->code, refused->text};
            }
        }
        return ok();
    }

    void tell_members(const Error& error) const {
        for (const auto& member : members_) {
            if (member && member->socket) {
                (void)send_packet(member->socket.get(), encode(Refused{error.code, error.message}),
                                  {}, Deadline::in(0s));
            }
        }
    }

    const LocalGroupOptions& meeting_;
    Deadline deadline_;
    FailureDetector* news_;
    UniqueFd listener_;
    UniqueFd memory_fd_;
    std::optional<SharedMemory> memory_;
    std::vector<Guest> guests_;
    std::vector<std::optional<Member>> members_;  // by local rank
    std::vector<std::string> notes_;              // who was refused, for the error
};

}  // namespace

Result<std::unique_ptr<LocalGroupParts>> meet_as_leader(const LocalGroupOptions& meeting,
                                                        Deadline deadline) {
    return Leader(meeting, deadline).run();
}

}  // namespace hvd::coll
