// SPDX-License-Identifier: Apache-2.0
//
// Every other local rank's side of the meeting.
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
#include <thread>
#include <utility>

#include <fcntl.h>
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
using join_message::Message;
using join_message::Received;
using join_message::Refused;

// Nothing tells when an abstract name comes into being.
constexpr std::chrono::microseconds kFirstPause = 200us;
constexpr std::chrono::microseconds kLongestPause = 10ms;
// The leader's deadline passes at about the same time, and its last word names who is missing.
constexpr auto kLastWord = 500ms;

class MemberSide {
public:
    MemberSide(const LocalGroupOptions& meeting, Deadline deadline)
        : meeting_(meeting),
          deadline_(deadline),
          news_(meeting.news),
          last_word_(deadline.is_never() ? deadline : Deadline(*deadline.end() + kLastWord)) {
        members_.resize(static_cast<std::size_t>(meeting.local_size));
    }

    [[nodiscard]] Result<std::unique_ptr<LocalGroupParts>> run() {
        HVD_TRY(bell_, make_wakeup());
        auto pause = kFirstPause;
        while (true) {
            HVD_TRY(const bool has_met, try_once());
            if (has_met) {
                break;
            }
            if (deadline_.has_passed()) {
                return Error{Errc::timed_out, "local rank 0 did not come to socket @" +
                                                  meeting_.socket + " in time, or has met " +
                                                  std::to_string(meeting_.local_size) +
                                                  " ranks already (was local rank " +
                                                  std::to_string(meeting_.local_rank) +
                                                  " started twice?)" + std::string(kMoreTime)};
            }
            HVD_TRY_STATUS(hear(news_));
            std::this_thread::sleep_for(pause);
            pause = std::min(pause * 2, kLongestPause);
        }
        auto parts = std::make_unique<LocalGroupParts>();
        parts->rank = meeting_.local_rank;
        parts->memory = std::make_shared<SharedMemory>(std::move(*memory_));
        parts->members = std::move(members_);
        parts->members[static_cast<std::size_t>(meeting_.local_rank)].pidfd.reset();
        return parts;
    }

private:
    /// Whether the meeting took place. False: nobody is there yet.
    [[nodiscard]] Result<bool> try_once() {
        HVD_TRY(socket_, connect_abstract(meeting_.socket, SOCK_SEQPACKET, deadline_));
        if (!socket_) {
            return false;
        }
        HVD_TRY(const auto leader, peer_credentials(socket_.get()));
        if (leader.uid != ::geteuid()) {
            return Error{Errc::invalid_argument,
                         "socket @" + meeting_.socket + " belongs to process " +
                             std::to_string(leader.pid) + " of user " + std::to_string(leader.uid) +
                             ", not of user " + std::to_string(::geteuid())};
        }
        const auto leader_pidfd = open_pidfd(leader.pid);
        if (!leader_pidfd) {
            return false;
        }
        Hello hello{.rank = meeting_.local_rank,
                    .size = meeting_.local_size,
                    .launcher = launcher_of(meeting_),
                    .key = meeting_.key,
                    .segments = {meeting_.segments.begin(), meeting_.segments.end()}};
        const int bell = bell_.get();
        const auto sent =
            send_packet(socket_.get(), encode(std::move(hello)), {&bell, 1}, deadline_);
        auto met = sent ? follow() : sent;
        if (met) {
            return true;
        }
        // A listener that closes while we stand in its queue belonged to an earlier meeting.
        if (met.error().code == Errc::unavailable && !has_answered_ &&
            is_alive(leader_pidfd->get())) {
            return false;
        }
        return std::move(met).error().context("meeting local rank 0 (pid " +
                                              std::to_string(leader.pid) + ")");
    }

    [[nodiscard]] static bool is_alive(int pidfd) {
        pollfd ended{pidfd, POLLIN, 0};
        return ::poll(&ended, 1, 0) == 0;
    }

    /// Does what the leader says, to the end.
    [[nodiscard]] Status follow() {
        while (true) {
            HVD_TRY(auto packet, receive_packet(socket_.get(), last_word_));
            has_answered_ = true;
            HVD_TRY(const auto message, decode(packet.bytes));
            if (const auto* refused = std::get_if<Refused>(&message)) {
                return Error{refused->code, refused->text};
            }
            if (std::holds_alternative<Go>(message) && memory_) {
                return ok();
            }
            const auto* members = std::get_if<Members>(&message);
            if (members == nullptr) {
                return Error{Errc::internal, "unexpected message"};
            }
            auto taken = take(*members, packet.fds);
            const Message answer =
                taken ? Message{Received{}}
                      : Message{Refused{taken.error().code, taken.error().message}};
            HVD_TRY_STATUS(send_packet(socket_.get(), encode(answer), {}, deadline_));
            HVD_TRY_STATUS(taken);
        }
    }

    [[nodiscard]] Status take(const Members& message, std::vector<UniqueFd>& fds) {
        const auto first = static_cast<std::size_t>(message.first);
        const std::size_t own = message.first == 0 ? 1 : 0;
        if (message.first < 0 || first + message.pids.size() > members_.size() ||
            fds.size() != own + 2 * message.pids.size()) {
            return Error{Errc::internal, "descriptors are missing"};
        }
        for (std::size_t index = 0; index < message.pids.size(); ++index) {
            members_[first + index] = LocalMember{.pid = message.pids[index],
                                                  .bell = std::move(fds[own + 2 * index]),
                                                  .pidfd = std::move(fds[own + 2 * index + 1])};
        }
        if (own == 1) {
            HVD_TRY(auto memory,
                    SharedMemory::map(fds[0].get(), meeting_.local_size, meeting_.segments));
            memory_.emplace(std::move(memory));
        }
        return ok();
    }

    const LocalGroupOptions& meeting_;
    Deadline deadline_;
    FailureDetector* news_;
    Deadline last_word_;
    UniqueFd bell_;
    UniqueFd socket_;
    bool has_answered_ = false;
    std::optional<SharedMemory> memory_;
    std::vector<LocalMember> members_;  // by local rank
};

}  // namespace

Result<std::unique_ptr<LocalGroupParts>> meet_as_member(const LocalGroupOptions& meeting,
                                                        Deadline deadline) {
    return MemberSide(meeting, deadline).run();
}

}  // namespace hvd::coll
