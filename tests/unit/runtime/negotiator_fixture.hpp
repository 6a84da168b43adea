// SPDX-License-Identifier: Apache-2.0
//
// A negotiator between operations and a channel whose other end is the test.
#pragma once

#include "runtime/engine/negotiator.hpp"
#include "tests/unit/runtime/fake_backend.hpp"

#include <catch2/catch.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hvd::test {

/// Keeps what a rank says, and says what the test wants.
class FakeChannel final : public rt::Channel {
public:
    std::vector<int> forgiven;
    using Ids = std::vector<std::uint32_t>;

    void add_set(const coll::ProcessSet& set) override { added.push_back(set); }
    void remove_set(int id) override { removed.push_back(id); }
    void announce(std::vector<std::byte> message) override {
        auto announcement = rt::decode_announcement(message);
        REQUIRE(announcement);
        announced.push_back(*std::move(announcement));
    }
    bool set_ready(std::span<const std::uint32_t> ids, const coll::ProcessSet& set) override {
        ready.emplace_back(ids.begin(), ids.end());
        ready_sets.push_back(set.id);
        return completes_ready;
    }
    bool propose(std::span<const std::uint32_t> ids,
                 std::span<const std::byte> payload,
                 rt::OwnPart /*own*/) override {
        if (is_in_vain) {
            return false;
        }
        payloads_proposed.emplace_back(payload.begin(), payload.end());
        proposed.emplace_back(ids.begin(), ids.end());
        outcome = rt::Proposal::waiting;
        return true;
    }
    rt::Proposal proposal() override { return outcome; }
    std::size_t payload_limit() const noexcept override { return limit; }
    std::span<const std::byte* const> payloads() const noexcept override { return received; }
    int awaited_in_round() const noexcept override { return awaited; }
    void refuse_round() override { ++refusals; }
    void next_round() override { ++rounds; }
    Result<std::optional<rt::ChannelEvent>> poll() override {
        if (log.empty()) {
            return std::optional<rt::ChannelEvent>{};
        }
        std::optional<rt::ChannelEvent> next = std::move(log.front());
        log.pop_front();
        return next;
    }
    bool flush() override { return false; }
    Result<std::optional<Heard>> next_announcement() override { return std::optional<Heard>{}; }
    void append_decision(const coll::ProcessSet& /*set*/,
                         std::vector<std::byte> /*message*/,
                         std::uint32_t /*id*/,
                         bool /*more*/) override {}
    void append_invalidation(const coll::ProcessSet& /*set*/, std::uint32_t /*id*/) override {}
    void watch(coll::Reactor& /*reactor*/) override {}
    void about_to_sleep(bool /*expects*/) override {}
    void awake() override {}
    std::optional<PeerFailure> peer_failure() override { return std::nullopt; }
    void forgive_departure(int rank) override { forgiven.push_back(rank); }
    bool has_left_unfinished(int /*rank*/) const override { return false; }
    void announce_leave() override {}
    void leave(bool /*finished*/) override {}
    std::string describe(int rank) const override { return "rank " + std::to_string(rank); }
    bool is_oversubscribed() override { return false; }

    std::vector<rt::Announcement> announced;
    std::vector<Ids> ready;  // ready bits, by call
    std::vector<int> ready_sets;
    std::vector<Ids> proposed;
    std::vector<std::vector<std::byte>> payloads_proposed;
    std::size_t limit = 64;                  // of payloads
    std::vector<const std::byte*> received;  // payloads, by rank
    std::vector<coll::ProcessSet> added;
    std::vector<int> removed;
    bool completes_ready = false;
    bool is_in_vain = false;
    rt::Proposal outcome = rt::Proposal::refused;
    int awaited = -1;
    int refusals = 0;
    int rounds = 0;
    std::deque<rt::ChannelEvent> log;
};

/// Rank 1 of 3. Set 1 is {0, 1}, set 2 is {1, 2}.
class NegotiatorFixture {
public:
    using Urgency = rt::Negotiator::Urgency;

    NegotiatorFixture() : sets({.id = 0, .ranks = {0, 1, 2}, .place = 1, .hosts = {0, 0, 0}}) {
        (void)sets.add(1, std::vector<std::int64_t>{0, 1});
        (void)sets.add(2, std::vector<std::int64_t>{1, 2});
        negotiator.emplace(rt::Negotiator::Setup{
            .channel = channel,
            .tickets = tickets,
            .sets = sets,
            .coordinator = std::nullopt,
            .fusion_bytes = std::nullopt,
            .has_room = [this](const coll::ProcessSet& set) { return !full.contains(set.id); },
            .on_set_removed = [this](int id) { closed.push_back(id); },
            .on_set_ended =
                [this](int id, int left) {
                    ended.push_back({id, left});
                },
            .on_missed = [this](int left) { missed.push_back(left); },
            .carries_payloads = true});
    }
    ~NegotiatorFixture() {
        negotiator->fail_open([](const rt::Operation&) { return Error{Errc::aborted, "over"}; });
    }
    NegotiatorFixture(const NegotiatorFixture&) = delete;
    NegotiatorFixture& operator=(const NegotiatorFixture&) = delete;

    /// As the engine does it when a caller submits.
    std::vector<rt::Operation*> make(std::vector<rt::Request> requests) {
        auto made = tickets.create(requests);
        REQUIRE(made);
        REQUIRE(rt::TicketTable::claim(*made));
        for (rt::Operation* operation : *made) {
            operation->set = *sets.acquire(operation->process_set);
            REQUIRE(complete_signature(operation->signature, operation->set->set));
        }
        return *std::move(made);
    }

    rt::Request request(const std::string& name, int process_set = 0, std::uint64_t group = 0) {
        values.emplace_back(1.0F);
        return float_request(name, {&values.back(), 1}, process_set, group);
    }

    rt::Operation& submit(rt::Request request, Urgency urgency = Urgency::background) {
        auto made = make({std::move(request)});
        negotiator->submit(made, urgency);
        return *made.front();
    }
    rt::Operation& submit(const std::string& name,
                          int process_set = 0,
                          Urgency urgency = Urgency::background) {
        return submit(request(name, process_set), urgency);
    }
    rt::Operation& submit(rt::Kind kind, int root = 0, std::vector<std::int64_t> ranks = {}) {
        rt::Request change;
        change.name = "change";
        change.has_out = true;
        change.signature.kind = kind;
        change.signature.root = root;
        change.signature.splits = std::move(ranks);
        return submit(std::move(change));
    }

    /// A plan's operation, which has ended, once more.
    void submit_again(rt::Operation& operation) {
        rt::Operation* const only = &operation;
        REQUIRE(rt::TicketTable::claim({&only, 1}));
        operation.set = *sets.acquire(operation.process_set);
        negotiator->submit({&only, 1}, Urgency::background);
    }

    /// The next entry of the log, after one step of the negotiator.
    std::vector<rt::Operation*> read(rt::ChannelEvent event) {
        channel.log.push_back(std::move(event));
        return step();
    }
    std::vector<rt::Operation*> step() {
        std::vector<rt::Operation*> ready;
        const auto stepped = negotiator->step(ready);
        REQUIRE(stepped);
        return ready;
    }

    /// The decision that all agree with what this rank has announced last about the names.
    static rt::Decision decision(const rt::Announcement& announcement, rt::CacheId id = rt::kNoId) {
        rt::Decision decision;
        decision.process_set = announcement.process_set;
        decision.members = announcement.members;
        decision.id = id;
        decision.first_dims.resize(announcement.members.size());
        return decision;
    }
    static rt::event::Decided decided(const rt::Decision& decision, bool more = false) {
        return {.process_set = decision.process_set, .message = encode(decision), .more = more};
    }

    /// Submits, agrees and completes: from now on the name has the id.
    void teach(const std::string& name, rt::CacheId id, int process_set = 0) {
        auto& operation = submit(name, process_set);
        REQUIRE_FALSE(channel.announced.empty());
        const auto ready = read(decided(decision(channel.announced.back(), id)));
        REQUIRE(ready == std::vector<rt::Operation*>{&operation});
        tickets.complete(operation);
        channel.announced.clear();
        channel.refusals = 0;
        channel.rounds = 0;
    }

    FakeChannel channel;
    rt::TicketTable tickets;
    rt::ProcessSetTable sets;
    std::deque<float> values;
    std::set<int> full;  // sets whose lanes have no room
    std::vector<int> closed;
    std::vector<std::vector<int>> ended;  // a set, and the rank that has left
    std::vector<int> missed;
    std::optional<rt::Negotiator> negotiator;
};

using Operations = std::vector<rt::Operation*>;

inline bool has_failed(const rt::Operation& operation) {
    return rt::TicketTable::is_done(operation) && operation.failed;
}

}  // namespace hvd::test
