// SPDX-License-Identifier: Apache-2.0
//
// The channel of a world of one that a test makes throw, or lose a peer.
#pragma once

#include "runtime/control/local_channel.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvd::test {

/// Calls `at` with the method's name wherever the engine may be surprised by an exception.
class FaultyChannel final : public rt::Channel {
public:
    explicit FaultyChannel(std::function<void(std::string_view)> at) : at_(std::move(at)) {}

    /// A peer is gone; nothing: none is any more.
    void lose(std::optional<PeerFailure> failure) { failure_ = std::move(failure); }

    Result<std::optional<rt::ChannelEvent>> poll() override {
        at_("poll");
        return local_.poll();
    }
    void about_to_sleep(bool expects) override {
        at_("about_to_sleep");
        local_.about_to_sleep(expects);
    }
    void awake() override {
        at_("awake");
        local_.awake();
    }
    bool is_oversubscribed() override {
        at_("is_oversubscribed");
        return local_.is_oversubscribed();
    }

    void add_set(const coll::ProcessSet& set) override { local_.add_set(set); }
    void remove_set(int id) override { local_.remove_set(id); }
    void announce(std::vector<std::byte> message) override { local_.announce(std::move(message)); }
    bool set_ready(std::span<const std::uint32_t> ids, const coll::ProcessSet& set) override {
        return local_.set_ready(ids, set);
    }
    bool propose(std::span<const std::uint32_t> ids,
                 std::span<const std::byte> payload,
                 rt::OwnPart own) override {
        return local_.propose(ids, payload, own);
    }
    rt::Proposal proposal() override { return local_.proposal(); }
    void refuse_round() override { local_.refuse_round(); }
    void next_round() override { local_.next_round(); }
    bool flush() override { return local_.flush(); }
    Result<std::optional<Heard>> next_announcement() override { return local_.next_announcement(); }
    void append_decision(const coll::ProcessSet& set,
                         std::vector<std::byte> message,
                         std::uint32_t id,
                         bool more) override {
        local_.append_decision(set, std::move(message), id, more);
    }
    void append_invalidation(const coll::ProcessSet& set, std::uint32_t id) override {
        local_.append_invalidation(set, id);
    }
    void watch(coll::Reactor& reactor) override { local_.watch(reactor); }
    std::optional<PeerFailure> peer_failure() override {
        return failure_ ? failure_ : local_.peer_failure();
    }
    void forgive_departure(int rank) override { local_.forgive_departure(rank); }
    bool has_left_unfinished(int rank) const override { return local_.has_left_unfinished(rank); }
    void announce_leave() override { local_.announce_leave(); }
    void leave(bool finished) override { local_.leave(finished); }
    std::string describe(int rank) const override { return local_.describe(rank); }

private:
    rt::LocalChannel local_;
    std::function<void(std::string_view)> at_;
    std::optional<PeerFailure> failure_;
};

}  // namespace hvd::test
