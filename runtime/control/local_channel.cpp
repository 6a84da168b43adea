// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/local_channel.hpp"

#include <utility>

namespace hvd::rt {

void LocalChannel::announce(std::vector<std::byte> message) {
    announced_.push_back(std::move(message));
}

void LocalChannel::mark(std::span<const std::uint32_t> ids, bool /*more_open*/) {
    events_.push_back(event::Ready{{ids.begin(), ids.end()}});
}

bool LocalChannel::propose(std::span<const std::uint32_t> /*ids*/) {
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

void LocalChannel::next_round(bool /*open*/) {}

bool LocalChannel::flush() {
    return false;
}

Result<std::optional<Channel::Heard>> LocalChannel::hear() {
    if (announced_.empty()) {
        return std::optional<Heard>{};
    }
    std::optional<Heard> heard = Heard{.rank = 0, .message = std::move(announced_.front())};
    announced_.pop_front();
    return heard;
}

void LocalChannel::decide(std::vector<std::byte> message, std::uint32_t /*id*/, bool more) {
    events_.push_back(event::Decided{std::move(message), more});
}

void LocalChannel::invalidate(std::uint32_t id) {
    events_.push_back(event::Invalidated{id});
}

// Nobody else is there: nothing wakes this rank but its own callers.
void LocalChannel::watch(coll::Reactor& /*reactor*/) {}
void LocalChannel::about_to_sleep(bool /*expects*/) noexcept {}
void LocalChannel::awake() noexcept {}

std::optional<Channel::Trouble> LocalChannel::trouble() {
    return std::nullopt;
}

void LocalChannel::leave(bool /*finished*/) noexcept {}

bool LocalChannel::crowded() {
    return false;
}

}  // namespace hvd::rt
