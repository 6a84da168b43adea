// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/control/channel.hpp"

#include <deque>

namespace hvd::rt {

/// The channel of a world of one: everything is agreed at once.
class LocalChannel final : public Channel {
public:
    void announce(std::vector<std::byte> message) override;
    void mark(std::span<const std::uint32_t> ids, bool more_open) override;
    [[nodiscard]] bool propose(std::span<const std::uint32_t> ids) override;
    [[nodiscard]] Proposal proposal() override;
    [[nodiscard]] Result<std::optional<ChannelEvent>> poll() override;
    void next_round(bool open) override;
    [[nodiscard]] bool flush() override;
    [[nodiscard]] Result<std::optional<Heard>> hear() override;
    void decide(std::vector<std::byte> message, std::uint32_t id, bool more) override;
    void invalidate(std::uint32_t id) override;
    void watch(coll::Reactor& reactor) override;
    void about_to_sleep(bool expects) noexcept override;
    void awake() noexcept override;
    [[nodiscard]] std::optional<Trouble> trouble() override;
    void leave(bool finished) noexcept override;
    [[nodiscard]] bool crowded() override;

private:
    std::deque<std::vector<std::byte>> announced_;
    std::deque<ChannelEvent> events_;
};

}  // namespace hvd::rt
