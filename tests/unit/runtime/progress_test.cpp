// SPDX-License-Identifier: Apache-2.0
//
// One rank's whole way from the inbox to the backend and back, step by step, in a world of one.
#include "runtime/engine/progress.hpp"

#include "tests/unit/runtime/fake_backend.hpp"
#include "tests/unit/runtime/faulty_channel.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using hvd::Deadline;
using hvd::Errc;
using hvd::Error;
using hvd::rt::Operation;
using hvd::rt::Progress;
using hvd::rt::TicketTable;
using hvd::test::FakeBackendState;
using hvd::test::float_request;
using State = hvd::test::FakeCollective::State;

namespace {

class ProgressFixture {
public:
    explicit ProgressFixture(FakeBackendState traits)
        : backend(std::move(traits)),
          sets({.id = 0, .ranks = {0}, .place = 0, .hosts = {0}}),
          progress(setup(), tickets, sets, inbox) {}
    ~ProgressFixture() { progress.leave(Deadline::in(std::chrono::seconds(0))); }
    ProgressFixture(const ProgressFixture&) = delete;
    ProgressFixture& operator=(const ProgressFixture&) = delete;

    /// As one call of a caller.
    Operation& submit(const std::string& name, std::span<float> data) {
        std::vector requests{float_request(name, data)};
        auto made = tickets.create(requests);
        REQUIRE(made);
        REQUIRE(TicketTable::claim(*made));
        made->front()->set = *sets.acquire(0);
        inbox.push(*made);
        return *made->front();
    }

    /// Long enough for the engine to do all that it can.
    void let_time_pass() {
        ++backend.now;
        for (int count = 0; count < 4; ++count) {
            step();
        }
    }

    void step() { (void)progress.step(Progress::Urgency::background); }

    FakeBackendState backend;
    TicketTable tickets;
    hvd::rt::ProcessSetTable sets;
    hvd::rt::Inbox<Operation*> inbox;
    hvd::test::FaultyChannel* channel = nullptr;  // progress has it
    Progress progress;

private:
    Progress::Setup setup() {
        hvd::rt::Executor::Setup executor;
        executor.backends.all.push_back(hvd::test::make_fake_backend(backend));
        executor.backends.select = hvd::test::select_first;
        auto made = std::make_unique<hvd::test::FaultyChannel>([](std::string_view) {});
        channel = made.get();
        return {.reactor = std::make_unique<hvd::coll::Reactor>(),
                .channel = std::move(made),
                .coordinator =
                    hvd::rt::Coordinator(1, {.capacity = 1000, .ids = 2000, .quarantine = 100}),
                .executor = std::move(executor),
                .config = {},
                .on_peer_lost = {}};
    }
};

/// Gradients as frameworks submit them: one call each, while the rank goes on. Returns how many
/// collectives they travelled in, once their names were known.
std::uint64_t collectives_of_a_step(ProgressFixture& rank) {
    constexpr std::size_t kGradients = 161;  // of ResNet-50
    std::vector<float> data(kGradients);
    std::uint64_t before = 0;
    for (int pass = 0; pass < 3; ++pass) {
        before = rank.progress.executed().collectives.value();
        std::vector<Operation*> pending;
        for (std::size_t index = 0; index < kGradients; ++index) {
            pending.push_back(&rank.submit("gradient." + std::to_string(index),
                                           std::span(data).subspan(index, 1)));
            rank.let_time_pass();
        }
        while (rank.progress.is_busy()) {
            rank.let_time_pass();
        }
        for (Operation* operation : pending) {
            REQUIRE(TicketTable::is_done(*operation));
            CHECK_FALSE(operation->failed);
            REQUIRE(rank.tickets.release(*operation));
        }
    }
    return rank.progress.executed().collectives.value() - before;
}

hvd::rt::Channel::PeerFailure gone_peer(Errc code, std::string why) {
    return {.peer = 1, .error = {code, std::move(why)}, .in_flight = true};
}

}  // namespace

TEST_CASE("gradients fuse as well where collectives are enqueued as where they end") {
    constexpr std::size_t kRoomy = std::size_t{64} << 20;
    const int duration = GENERATE(5, 10);  // in submissions
    ProgressFixture host({.fusion_bytes = kRoomy, .duration = duration});
    ProgressFixture device(
        {.max_in_flight = 2, .fusion_bytes = kRoomy, .duration = duration, .is_stream = true});

    const auto on_host = collectives_of_a_step(host);
    const auto on_device = collectives_of_a_step(device);

    CAPTURE(duration, on_host, on_device);
    CHECK(on_host <= static_cast<std::uint64_t>(161 / duration + 3));
    CHECK(on_device * 10 <= on_host * 11);
}

TEST_CASE("what no lane has room for is agreed on only when there is") {
    ProgressFixture rank({});
    std::vector<float> data(3, 1);
    (void)rank.submit("a", {data.data(), 1});
    rank.step();
    REQUIRE(rank.backend.started.size() == 1);

    (void)rank.submit("b", {data.data() + 1, 1});
    rank.step();
    (void)rank.submit("c", {data.data() + 2, 1});
    rank.step();
    CHECK(rank.progress.agreed().by_name.value() == 1);
    rank.backend.started.front().state = State::done;
    rank.step();
    rank.step();

    CHECK(rank.progress.agreed().by_name.value() == 3);
    REQUIRE(rank.backend.started.size() == 2);
    CHECK(rank.backend.started.back().task.segments.size() == 2);
}

TEST_CASE("a backend that fails ends the world, not the process") {
    const bool at_start = GENERATE(false, true);
    CAPTURE(at_start);
    FakeBackendState traits;
    if (at_start) {
        traits.open_error = Error{Errc::unavailable, "too many open files"};
    }
    ProgressFixture rank(traits);
    std::vector<float> data(3, 1);
    auto& first = rank.submit("a", {data.data(), 1});
    rank.step();
    if (!at_start) {
        rank.backend.started.front().state = State::failed;
        rank.step();
    }
    REQUIRE(TicketTable::is_done(first));
    CHECK(first.failed);

    auto& later = rank.submit("b", {data.data() + 1, 1});
    rank.step();

    REQUIRE(TicketTable::is_done(later));
    const std::string cause = at_start ? "too many open files" : "the cable is cut";
    CHECK(first.error.message == cause + "; 'a' (allreduce) was not finished");
    CHECK(later.error.message == cause + "; 'b' (allreduce) was not finished");
}

TEST_CASE("leaving finishes what was agreed, and fails what was not") {
    ProgressFixture rank({});
    std::vector<float> data(2, 1);
    auto& running = rank.submit("a", {data.data(), 1});
    rank.step();
    auto& held = rank.submit("b", {data.data() + 1, 1});
    rank.backend.polls_until_done = 10;

    rank.progress.leave(Deadline::in(std::chrono::seconds(5)));

    CHECK(TicketTable::is_done(running));
    CHECK_FALSE(running.failed);
    CHECK(TicketTable::is_done(held));
    CHECK(held.failed);
    auto& later = rank.submit("c", {data.data(), 1});
    rank.progress.fail_rest();
    CHECK(later.failed);
}

TEST_CASE("a rank that has something open, or in flight, goes on before it sleeps") {
    ProgressFixture rank({});
    CHECK_FALSE(rank.progress.announce_sleep());
    rank.progress.awake();
    std::vector<float> data(1, 1);
    (void)rank.submit("a", data);

    CHECK(rank.progress.announce_sleep());
    rank.progress.awake();
    rank.step();
    CHECK(rank.backend.started.size() == 1);
    CHECK_FALSE(rank.progress.announce_sleep());  // nothing has moved; it will be woken
    rank.progress.awake();
    rank.backend.started.front().state = State::done;
    CHECK(rank.progress.announce_sleep());
    CHECK_FALSE(rank.progress.is_busy());
}

TEST_CASE("what a peer has done its part of before its end is finished, for a while") {
    const bool has_done_its_part = GENERATE(true, false);
    CAPTURE(has_done_its_part);
    ProgressFixture rank({});
    std::vector<float> data(1, 1);
    auto& running = rank.submit("a", data);
    rank.step();
    rank.channel->lose(gone_peer(Errc::unavailable, "it has died"));

    rank.step();
    REQUIRE_FALSE(TicketTable::is_done(running));
    const auto look = rank.progress.next_look();
    REQUIRE(look.is_before(Deadline::in(std::chrono::seconds(1))));
    if (has_done_its_part) {
        rank.backend.started.front().state = State::done;
    } else {
        std::this_thread::sleep_until(*look.end());
    }
    rank.step();
    rank.step();

    REQUIRE(TicketTable::is_done(running));
    CHECK(running.failed == !has_done_its_part);
    const auto health = rank.progress.health();
    REQUIRE_FALSE(health);
    CHECK(health.error().message == "it has died");
}

TEST_CASE("a departure that is forgiven is not looked for any more") {
    ProgressFixture rank({});
    std::vector<float> data(1, 1);
    auto& running = rank.submit("a", data);
    rank.step();
    const auto soon = Deadline::in(std::chrono::seconds(1));
    rank.channel->lose(gone_peer(Errc::aborted, "it has shut down"));
    rank.step();
    REQUIRE(rank.progress.next_look().is_before(soon));

    rank.channel->lose(std::nullopt);
    rank.step();

    CHECK_FALSE(rank.progress.next_look().is_before(soon));
    rank.backend.started.front().state = State::done;
    rank.step();
    CHECK_FALSE(running.failed);
}
