// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/group_member.hpp"

#include "collectives/base/text.hpp"
#include "collectives/rendezvous/store.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvd::coll {
namespace {

using namespace std::chrono_literals;
using join_message::Go;
using join_message::Hello;
using join_message::Members;
using join_message::Message;
using join_message::Received;
using join_message::Refused;

// Nothing tells when an abstract name comes into being.
constexpr std::chrono::microseconds kFirstPause = 200us;
constexpr std::chrono::microseconds kLongestPause = 10ms;
// The leader's deadline passes at about the same time, and its answer names the missing ranks.
constexpr auto kAnswerGrace = 500ms;

[[nodiscard]] bool is_alive(int pidfd) {
    pollfd ended{pidfd, POLLIN, 0};
    return ::poll(&ended, 1, 0) == 0;
}

}  // namespace

GroupMember::GroupMember(const LocalGroupOptions& options, Deadline deadline)
    : options_(options),
      deadline_(deadline),
      failures_(options.failures),
      answer_limit_(deadline.is_never() ? deadline : Deadline(*deadline.end() + kAnswerGrace)) {
    peers_.resize(static_cast<std::size_t>(options.size));
}

Result<std::unique_ptr<LocalGroupParts>> GroupMember::run() {
    HVD_TRY(wakeup_, make_wakeup());
    auto pause = kFirstPause;
    while (true) {
        HVD_TRY(const bool has_joined, try_once());
        if (has_joined) {
            break;
        }
        if (deadline_.has_passed()) {
            return no_leader();
        }
        HVD_TRY_STATUS(check_failures(failures_));
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, kLongestPause);
    }
    auto parts = std::make_unique<LocalGroupParts>();
    parts->rank = options_.rank;
    parts->memory = std::make_shared<SharedMemory>(std::move(*memory_));
    parts->peers = std::move(peers_);
    parts->peers[static_cast<std::size_t>(options_.rank)].pidfd.reset();
    return parts;
}

/// Whether this rank has joined. False: local rank 0 listens nowhere yet.
Result<bool> GroupMember::try_once() {
    for (const auto& name : candidates()) {
        HVD_TRY(const bool has_joined, join_at(name));
        if (has_joined) {
            return true;
        }
    }
    return false;
}

/// Without a key another user may listen at any number of names that begin alike.
std::vector<std::string> GroupMember::candidates() const {
    if (!options_.key.empty()) {
        return {options_.name};
    }
    auto names = listening_abstract_names(options_.name + "/");
    std::erase_if(names, [this](const auto& name) { return names_of_others_.contains(name); });
    return names;
}

Result<bool> GroupMember::join_at(const std::string& name) {
    // Without SOCK_NONBLOCK a listener that accepts nothing would hold this rank up.
    auto connected = connect_abstract(name, SOCK_SEQPACKET | SOCK_NONBLOCK, deadline_);
    if (!connected && connected.error().code != Errc::timed_out) {
        return std::move(connected).error();
    }
    if (!connected || !*connected) {
        return false;
    }
    socket_ = std::move(connected).value();
    HVD_TRY(const auto leader, peer_credentials(socket_.get()));
    if (leader.uid != ::geteuid()) {
        names_of_others_.insert(name);
        other_owner_ = "socket @" + name + " belongs to process " + std::to_string(leader.pid) +
                       " of user " + std::to_string(leader.uid) + ", not of user " +
                       std::to_string(::geteuid());
        return false;
    }
    const auto leader_pidfd = open_pidfd(leader.pid);
    if (!leader_pidfd) {
        return false;
    }
    Hello hello{.rank = options_.rank,
                .size = options_.size,
                .launcher = launcher_of(options_),
                .key = options_.key,
                .segments = {options_.segments.begin(), options_.segments.end()}};
    const int wakeup = wakeup_.get();
    const auto sent = send_packet(socket_.get(), encode(std::move(hello)), {&wakeup, 1}, deadline_);
    auto joined = sent ? follow_leader() : sent;
    if (joined) {
        return true;
    }
    // A listener that closed while this rank stood in its queue belonged to an earlier group.
    if (joined.error().code == Errc::unavailable && !has_answered_ &&
        is_alive(leader_pidfd->get())) {
        return false;
    }
    return std::move(joined).error().context("local rank 0 (pid " + std::to_string(leader.pid) +
                                             ")");
}

/// Does what the leader asks for, to the end.
Status GroupMember::follow_leader() {
    while (true) {
        HVD_TRY(auto packet, receive_packet(socket_.get(), answer_limit_));
        has_answered_ = true;
        HVD_TRY(const auto message, join_message::decode(packet.bytes));
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
        const Message answer = taken ? Message{Received{}}
                                     : Message{Refused{taken.error().code, taken.error().message}};
        HVD_TRY_STATUS(send_packet(socket_.get(), encode(answer), {}, deadline_));
        HVD_TRY_STATUS(taken);
    }
}

Status GroupMember::take(const Members& message, std::vector<UniqueFd>& fds) {
    const auto first = static_cast<std::size_t>(message.first);
    const std::size_t own = message.first == 0 ? 1 : 0;
    if (message.first < 0 || first + message.pids.size() > peers_.size() ||
        fds.size() != own + 2 * message.pids.size()) {
        return Error{Errc::internal, "descriptors are missing"};
    }
    for (std::size_t index = 0; index < message.pids.size(); ++index) {
        peers_[first + index] = GroupPeer{.pid = message.pids[index],
                                          .wakeup = std::move(fds[own + 2 * index]),
                                          .pidfd = std::move(fds[own + 2 * index + 1])};
    }
    if (own == 1) {
        HVD_TRY(auto memory, SharedMemory::map(fds[0].get(), options_.size, options_.segments));
        memory_.emplace(std::move(memory));
    }
    return ok();
}

Error GroupMember::no_leader() const {
    const int leader = world_rank_of(options_, 0);
    auto text = describe_missing({&leader, 1}) + " (socket @" + options_.name +
                ") in time, or has formed a group of " + std::to_string(options_.size) +
                " ranks already (was local rank " + std::to_string(options_.rank) +
                " started twice?)";
    if (!other_owner_.empty()) {
        text += "; " + other_owner_;
    }
    return {Errc::timed_out, text.append(kMoreTime)};
}

}  // namespace hvd::coll
