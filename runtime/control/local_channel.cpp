// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/local_channel.hpp"

#include <utility>

namespace hvd::rt {

void LocalChannel::announce(std::vector<std::byte> message) {
    announced_.push_back(std::move(message));
}

bool LocalChannel::set_ready(std::span<const std::uint32_t> ids, const coll::ProcessSet& set) {
    events_.emplace_back(event::Ready{.ids = {ids.begin(), ids.end()}, .of_world = set.id == 0});
    return true;
}

bool LocalChannel::propose(std::span<const std::uint32_t> /*ids*/,
                           std::span<const std::byte> payload,
                           OwnPart /*own*/) {
    payload_.assign(payload);
    return true;
}

Proposal LocalChannel::proposal() {
    return Proposal::accepted;
}

Result<std::optional<ChannelEvent>> LocalChannel::poll() {
    if (events_.empty()) {
        return std::optional<ChannelEvent>{};
    }
    std::optional<ChannelEvent> event = std::move(events_.front());
    events_.pop_front();
    return event;
}

bool LocalChannel::flush() {
    return false;
}

Result<std::optional<Channel::Heard>> LocalChannel::next_announcement() {
    if (announced_.empty()) {
        return std::optional<Heard>{};
    }
    std::optional<Heard> heard = Heard{.rank = 0, .message = std::move(announced_.front())};
    announced_.pop_front();
    return heard;
}

void LocalChannel::append_decision(const coll::ProcessSet& set,
                                   std::vector<std::byte> message,
                                   std::uint32_t /*id*/,
                                   bool more) {
    if (set.is_member()) {
        events_.emplace_back(
            event::Decided{.process_set = set.id, .message = std::move(message), .more = more});
    }
}

void LocalChannel::append_invalidation(const coll::ProcessSet& /*set*/, std::uint32_t id) {
    events_.emplace_back(event::Invalidated{id});
}

std::optional<Channel::PeerFailure> LocalChannel::peer_failure() {
    return std::nullopt;
}

void LocalChannel::forgive_departure(int /*rank*/) {}

bool LocalChannel::has_left_unfinished(int /*rank*/) const {
    return false;
}

void LocalChannel::announce_leave() {
    events_.emplace_back(event::Left{0});
}

std::string LocalChannel::describe(int rank) const {
    return "rank " + std::to_string(rank);
}

}  // namespace hvd::rt
