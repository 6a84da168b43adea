// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/control/channel.hpp"
#include "runtime/control/payload.hpp"

#include <deque>

namespace hvd::rt {

/// The channel of a world of one: whatever this rank announces or sets ready, all ranks have.
class LocalChannel final : public Channel {
public:
    void add_set(const coll::ProcessSet& /*set*/) override {}
    void remove_set(int /*id*/) override {}
    void announce(std::vector<std::byte> message) override;
    [[nodiscard]] bool set_ready(std::span<const std::uint32_t> ids,
                                 const coll::ProcessSet& set) override;
    [[nodiscard]] bool propose(std::span<const std::uint32_t> ids,
                               std::span<const std::byte> payload,
                               OwnPart own) override;
    [[nodiscard]] Proposal proposal() override;
    [[nodiscard]] std::size_t payload_limit() const noexcept override {
        return Payload::kMostBytes;
    }
    [[nodiscard]] std::span<const std::byte* const> payloads() const noexcept override {
        return {&payload_address_, 1};
    }
    void refuse_round() override {}
    void next_round() override {}
    [[nodiscard]] Result<std::optional<ChannelEvent>> poll() override;
    [[nodiscard]] bool flush() override;
    [[nodiscard]] Result<std::optional<Heard>> next_announcement() override;
    void append_decision(const coll::ProcessSet& set,
                         std::vector<std::byte> message,
                         std::uint32_t id,
                         bool more) override;
    void append_invalidation(const coll::ProcessSet& set, std::uint32_t id) override;
    // No other rank is there: nothing wakes this one but its own callers.
    void watch(coll::Reactor& /*reactor*/) override {}
    void about_to_sleep(bool /*expects*/) override {}
    void awake() override {}
    [[nodiscard]] std::optional<PeerFailure> peer_failure() override;
    void forgive_departure(int rank) override;
    [[nodiscard]] bool has_left_unfinished(int rank) const override;
    void announce_leave() override;
    void leave(bool /*finished*/) override {}
    [[nodiscard]] std::string describe(int rank) const override;
    [[nodiscard]] bool is_oversubscribed() override { return false; }

private:
    std::deque<std::vector<std::byte>> announced_;
    std::deque<ChannelEvent> events_;
    Payload payload_;
    const std::byte* payload_address_ = payload_.data();
};

}  // namespace hvd::rt
