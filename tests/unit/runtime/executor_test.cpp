// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/runtime/executor_fixture.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using hvd::coll::DataType;
using hvd::coll::Op;
using hvd::rt::Moment;
using hvd::rt::Operation;
using hvd::test::ExecutorFixture;
using hvd::test::float_request;
using State = hvd::test::FakeCollective::State;

namespace {

std::vector<Operation*> leaders_of(const std::vector<Operation*>& operations) {
    std::vector<Operation*> leaders;
    std::ranges::copy_if(operations, std::back_inserter(leaders),
                         [](const Operation* operation) { return operation->leader == operation; });
    return leaders;
}

/// The moments that an observer is shown, with their backends.
class Seen final : public hvd::rt::Observer {
public:
    void on(Moment moment,
            std::span<Operation* const> /*operations*/,
            std::string_view backend) override {
        moments.emplace_back(moment, backend);
    }
    void on_announced(int /*process_set*/, std::string_view /*name*/, int /*rank*/) override {}
    void on_cycle() override {}

    std::vector<std::pair<Moment, std::string>> moments;
};

}  // namespace

TEST_CASE("an observer is shown that the first collective of a lane waits for its communicator") {
    ExecutorFixture rank({.device = std::nullopt, .info_bytes = 8, .polls_until_done = 1});
    Seen seen;
    rank.tickets.set_observer(&seen);

    for (const auto* name : {"first", "second"}) {
        (void)rank.enqueue_on({0, 1}, name);
        while (rank.executor->is_busy()) {
            rank.step();
        }
    }

    using Moments = std::vector<std::pair<Moment, std::string>>;
    CHECK(seen.moments == Moments{{Moment::agreed, ""},
                                  {Moment::connecting, "fake"},
                                  {Moment::started, "fake"},
                                  {Moment::ended, ""},
                                  {Moment::agreed, ""},
                                  {Moment::started, "fake"},
                                  {Moment::ended, ""}});
}

TEST_CASE("a collective completes when its work is done") {
    ExecutorFixture rank;
    auto& operation = rank.enqueue("a");

    CHECK(rank.executor->is_busy());
    CHECK(rank.executor->step());
    REQUIRE(rank.backend.started.size() == 1);
    CHECK_FALSE(rank.is_done(operation));
    CHECK_FALSE(rank.executor->step());
    rank.backend.started.front().state = State::done;
    CHECK(rank.executor->step());

    CHECK(rank.is_done(operation));
    CHECK_FALSE(operation.failed);
    CHECK(rank.values.front() == 10);
    CHECK_FALSE(rank.backend.started.front().is_alive);
    CHECK_FALSE(rank.executor->is_busy());
    CHECK(rank.executor->totals().collectives.value() == 1);
    CHECK(rank.executor->totals().bytes.value() == 4);
}

TEST_CASE("an operation whose inputs are there completes at once, without the backend") {
    ExecutorFixture rank;
    std::vector<float> own{1, 2};
    const std::vector<float> other{10, 20};
    const auto made = rank.make({float_request("a", own)});
    const std::vector<float> copy = own;
    const std::array inputs{reinterpret_cast<const std::byte*>(copy.data()),
                            reinterpret_cast<const std::byte*>(other.data())};

    rank.executor->run(*made.front(), inputs);

    CHECK(rank.is_done(*made.front()));
    CHECK_FALSE(made.front()->failed);
    CHECK(own == std::vector<float>{11, 22});
    CHECK(rank.backend.started.empty());
    CHECK_FALSE(rank.executor->is_busy());
    CHECK(rank.executor->totals().collectives.value() == 1);
    CHECK(rank.executor->totals().bytes.value() == 8);
    const auto rows = rank.executor->metrics().operations;
    REQUIRE(rows.size() == 1);
    CHECK(rows.front().metrics.operations == 1);
    CHECK(rows.front().metrics.largest == 8);
    CHECK(rows.front().metrics.timed == 1);
}

TEST_CASE("after an abort an operation whose inputs are there fails as others do") {
    ExecutorFixture rank;
    rank.executor->abort({hvd::Errc::unavailable, "rank 1 has died"});
    std::vector<float> own{1};
    const auto made = rank.make({float_request("a", own)});
    const std::array inputs{made.front()->in, made.front()->in};

    rank.executor->run(*made.front(), inputs);
    rank.step();

    CHECK(rank.is_done(*made.front()));
    CHECK(made.front()->error.message == "rank 1 has died; 'a' (allreduce) was not finished");
    CHECK(own == std::vector<float>{1});
}

TEST_CASE("collectives of one set run one after another, in order") {
    ExecutorFixture rank;
    auto& first = rank.enqueue("a");
    auto& second = rank.enqueue("b");
    rank.step();
    CHECK(rank.backend.started.size() == 1);

    rank.backend.started.front().state = State::done;
    rank.step();

    CHECK(rank.is_done(first));
    CHECK_FALSE(rank.is_done(second));
    REQUIRE(rank.backend.started.size() == 2);
    CHECK(rank.backend.started.back().task.segments.front().out == second.out);
}

TEST_CASE("a set waits for no other one") {
    ExecutorFixture rank;
    auto& slow = rank.enqueue("slow", 1);
    rank.step();
    auto& quick = rank.enqueue("quick", 2);
    auto& world = rank.enqueue("world", 0);
    rank.step();

    REQUIRE(rank.backend.started.size() == 3);
    rank.backend.started[1].state = State::done;
    rank.backend.started[2].state = State::done;
    rank.step();

    CHECK(rank.is_done(quick));
    CHECK(rank.is_done(world));
    CHECK_FALSE(rank.is_done(slow));
    CHECK(rank.executor->has_room(2));
    CHECK_FALSE(rank.executor->has_room(1));
}

TEST_CASE("what is ready together is fused up to the limit that was agreed") {
    ExecutorFixture rank;
    std::vector<float> data(6, 1);
    std::vector<hvd::rt::Request> requests;
    for (std::size_t index = 0; index < data.size(); ++index) {
        requests.push_back(float_request(std::to_string(index), std::span(data).subspan(index, 1)));
    }
    rank.backend.polls_until_done = 1;

    rank.executor->enqueue(rank.make(requests), 2 * sizeof(float));
    rank.step();
    CHECK(rank.backend.started.size() == 3);
    CHECK(data == std::vector<float>(6, 10));

    for (auto& request : requests) {
        request.name = "again." + std::to_string(&request - requests.data());
        request.process_set = 1;
    }
    rank.executor->enqueue(rank.make(requests), std::nullopt);  // as suits the backend
    rank.step();
    CHECK(rank.backend.started.size() == 4);
    CHECK(data == std::vector<float>(6, 100));
}

TEST_CASE("a backend that does not gather gets one packed segment, and results find their places") {
    ExecutorFixture rank({.gathers = false});
    std::vector<float> first{1, 2, 3};
    std::vector<float> empty;
    std::vector<float> second{4, 5};
    const auto operations = rank.make(
        {float_request("a", first), float_request("b", empty), float_request("c", second)});

    rank.executor->enqueue(operations, std::nullopt);
    rank.step();
    REQUIRE(rank.backend.started.size() == 1);
    auto& collective = rank.backend.started.front();
    REQUIRE(collective.task.segments.size() == 1);
    CHECK(collective.task.segments.front().count == 5);
    CHECK(collective.task.segments.front().in != operations.front()->in);
    CHECK(first == std::vector<float>{1, 2, 3});
    collective.state = State::done;
    rank.step();

    CHECK(first == std::vector<float>{10, 20, 30});
    CHECK(second == std::vector<float>{40, 50});
    CHECK(rank.executor->totals().bytes.value() == 20);
}

TEST_CASE("a single tensor is never packed") {
    ExecutorFixture rank({.gathers = false});
    auto& operation = rank.enqueue("a");

    rank.step();

    CHECK(rank.backend.started.front().task.segments.front().in == operation.in);
}

TEST_CASE(
    "values that are rounded on the way are packed as halves, and divided once they are wide") {
    ExecutorFixture rank({.gathers = false});
    std::vector<float> first{1, 3 + 0x1p-12F};
    std::vector<float> second{0.75F};
    std::vector requests{float_request("a", first), float_request("b", second)};
    const auto count = GENERATE(std::size_t{1}, std::size_t{2});
    requests.resize(count);
    for (auto& request : requests) {
        request.signature.reduce = hvd::coll::ReduceOp::average;
        request.signature.wire = hvd::coll::Wire::f16;
        request.signature.prescale = 2;
        request.signature.postscale = 1.5;
    }

    rank.executor->enqueue(rank.make(requests), std::nullopt);
    rank.step();
    REQUIRE(rank.backend.started.size() == 1);
    auto& collective = rank.backend.started.front();
    const auto& task = collective.task;
    CHECK(task.type == DataType::f16);
    CHECK(task.wire == hvd::coll::Wire::own);
    CHECK(task.reduce == hvd::coll::ReduceOp::sum);
    CHECK(task.prescale == 1);
    CHECK(task.postscale == 1);
    REQUIRE(task.segments.size() == 1);
    CHECK(task.segments.front().count == count + 1);
    const auto* const packed = reinterpret_cast<const std::uint16_t*>(task.segments.front().in);
    CHECK(packed[0] == 0x4000);
    CHECK(packed[1] == 0x4600);  // twice 3, without what a half cannot hold
    collective.state = State::done;
    rank.step();

    CHECK(first == std::vector<float>{15, 45});
    CHECK(second.front() == (count == 2 ? 11.25F : 0.75F));
    CHECK(rank.executor->totals().bytes.value() == 2 * (count + 1));
}

TEST_CASE("of a reducescatter whose values are rounded on the way a rank gets its part") {
    const int place = GENERATE(0, 1);
    ExecutorFixture rank({.gathers = false});
    rank.sets[1].set = {.id = 1, .ranks = {2, 5}, .place = place, .hosts = {0, 0}};
    std::vector<float> rows{1, 2, 3};
    std::vector<float> part(place == 0 ? 2 : 1);
    auto request = float_request("a", rows, 1);
    request.signature.op = Op::reducescatter;
    request.signature.wire = hvd::coll::Wire::f16;
    request.out = reinterpret_cast<std::byte*>(part.data());

    rank.executor->enqueue(rank.make({request}), std::nullopt);
    rank.step();
    auto& collective = rank.backend.started.front();
    const auto& segment = collective.task.segments.front();
    CHECK(segment.counts == std::vector<std::size_t>{2, 1});
    CHECK(segment.out == segment.in + (place == 0 ? 0 : 2 * sizeof(std::uint16_t)));
    collective.state = State::done;
    rank.step();

    CHECK(part == (place == 0 ? std::vector<float>{10, 20} : std::vector<float>{30}));
}

TEST_CASE("a packed broadcast takes the root's data from the root alone") {
    const int root = GENERATE(0, 1);
    CAPTURE(root);
    ExecutorFixture rank({.gathers = false});
    std::vector<float> a{1};
    std::vector<float> b{2};
    std::vector requests{float_request("a", a), float_request("b", b)};
    for (auto& request : requests) {
        request.signature.op = Op::broadcast;
        request.signature.root = root;
        request.in = root == 0 ? request.in : nullptr;  // nobody but the root has any
    }

    rank.executor->enqueue(rank.make(requests), std::nullopt);
    rank.step();

    REQUIRE(rank.backend.started.size() == 1);
    const auto& task = rank.backend.started.front().task;
    CHECK(task.root == root);
    if (root == 0) {
        const auto* const packed = reinterpret_cast<const float*>(task.segments.front().in);
        CHECK(packed[1] == 2);
    }
}

TEST_CASE("the root is given to the backend as a place in the set") {
    ExecutorFixture rank;
    rank.sets[1].set = {.id = 1, .ranks = {2, 5, 7}, .place = 0, .hosts = {0, 0, 0}};
    std::vector<float> data{1};
    auto request = float_request("a", data, 1);
    request.signature.op = Op::broadcast;
    request.signature.root = 7;

    rank.executor->enqueue(rank.make({request}), std::nullopt);
    rank.step();

    CHECK(rank.backend.started.front().task.root == 2);
}

TEST_CASE("what is in flight names members that have not begun it by their ranks in the world") {
    ExecutorFixture rank;
    rank.sets[1].set = {.id = 1, .ranks = {2, 5, 7}, .place = 0, .hosts = {0, 0, 0}};
    std::vector<float> data{1};
    auto request = float_request("a", data, 1);
    rank.executor->enqueue(rank.make({request}), std::nullopt);
    rank.step();
    rank.backend.started.front().missing = {1, 2};

    std::vector<hvd::rt::Waiting> waiting;
    rank.executor->list_in_flight(waiting);

    REQUIRE(waiting.size() == 1);
    CHECK(waiting.front().waiting == std::vector{2});
    CHECK(waiting.front().missing == std::vector{5, 7});
}

TEST_CASE("counts of the operations that move rows are elements, by place") {
    ExecutorFixture rank;
    rank.sets[1].set = {.id = 1, .ranks = {2, 5, 7}, .place = 1, .hosts = {0, 0, 0}};
    std::vector<float> data(14);
    const auto op = GENERATE(Op::allgather, Op::alltoall, Op::reducescatter);
    CAPTURE(to_string(op));
    auto request = float_request("a", data, 1);
    request.signature.op = op;
    request.signature.shape = {7, 2};
    request.signature.splits = {1, 2, 3};
    auto operations = rank.make({request});
    operations.front()->first_dims = {4, 7, 0};
    operations.front()->received_splits = {5, 2, 0};

    rank.executor->enqueue(operations, std::nullopt);
    rank.step();

    const auto& segment = rank.backend.started.front().task.segments.front();
    using Counts = std::vector<std::size_t>;
    CHECK(segment.count == 14);
    if (op == Op::allgather) {
        CHECK(segment.counts == Counts{8, 14, 0});
    } else if (op == Op::alltoall) {
        CHECK(segment.counts == Counts{10, 4, 0});
        CHECK(segment.send_counts == Counts{2, 4, 6});
    } else {
        CHECK(segment.counts == Counts{6, 4, 4});
    }
}

TEST_CASE("the members of a group end together, when the last of them has run") {
    ExecutorFixture rank;
    std::vector<float> first{1};
    std::vector<float> second{1};
    std::vector requests{float_request("a", first, 0, 1), float_request("b", second, 0, 1)};
    requests[1].signature.type = DataType::i32;  // cannot travel with the other
    const auto operations = rank.make(requests);

    rank.executor->enqueue(leaders_of(operations), std::nullopt);
    rank.step();
    rank.backend.started.front().state = State::done;
    rank.step();
    REQUIRE(rank.backend.started.size() == 2);
    CHECK_FALSE(rank.is_done(*operations[0]));
    CHECK_FALSE(rank.is_done(*operations[1]));
    rank.backend.started.back().state = State::done;
    rank.step();

    CHECK(rank.is_done(*operations[0]));
    CHECK(rank.is_done(*operations[1]));
}

TEST_CASE("what a device has in its stream is complete, with an event, and keeps its room") {
    ExecutorFixture rank({.max_in_flight = 2});
    auto& first = rank.enqueue("a");
    auto& second = rank.enqueue("b");
    auto& third = rank.enqueue("c");
    rank.step();
    REQUIRE(rank.backend.started.size() == 2);
    CHECK_FALSE(rank.executor->has_room(0));

    rank.backend.started[0].state = State::enqueued;
    rank.backend.started[1].state = State::enqueued;
    rank.step();
    CHECK(rank.is_done(first));
    CHECK(first.event == rank.backend.started[0].event);
    CHECK(rank.is_done(second));
    CHECK_FALSE(rank.is_done(third));
    CHECK(rank.backend.started.size() == 2);  // unfinished until their events complete
    CHECK(rank.executor->is_busy());

    rank.backend.started[0].state = State::done;
    rank.step();
    CHECK(rank.backend.started.size() == 3);
    CHECK_FALSE(rank.executor->has_room(0));
    rank.backend.started[1].state = State::done;
    rank.backend.started[2].state = State::done;
    rank.step();
    CHECK(rank.is_done(third));
    CHECK(rank.executor->has_room(0));
    CHECK_FALSE(rank.executor->is_busy());
    CHECK(rank.tickets.completed() == 3);
}

TEST_CASE("backends give memory back once, when devices have been idle for the limit") {
    ExecutorFixture rank;
    (void)rank.enqueue("a");
    rank.step();
    rank.backend.started[0].state = State::enqueued;
    rank.step();
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
    rank.step();
    CHECK(rank.backend.idle == 0);  // it is in the stream still

    rank.backend.started[0].state = State::done;
    rank.step();
    const auto limit = rank.executor->next_look();
    REQUIRE_FALSE(limit.is_never());
    std::this_thread::sleep_until(*limit.end());
    rank.step();
    rank.step();
    CHECK(rank.backend.idle == 1);
    CHECK(rank.executor->next_look().is_never());
}

TEST_CASE("what is packed for a device ends with its unpacking, not in the stream") {
    ExecutorFixture rank({.max_in_flight = 2, .gathers = false});
    std::vector<float> first{1};
    std::vector<float> second{2};
    const auto operations = rank.make({float_request("a", first), float_request("b", second)});
    rank.executor->enqueue(operations, std::nullopt);
    rank.step();

    rank.backend.started.front().state = State::enqueued;
    rank.step();
    CHECK_FALSE(rank.is_done(*operations[0]));
    rank.backend.started.front().state = State::done;
    rank.step();

    CHECK(rank.is_done(*operations[0]));
    CHECK(second.front() == 20);
}

TEST_CASE("a collective that has ended before the one ahead of it waits its turn") {
    ExecutorFixture rank({.max_in_flight = 2});
    auto& first = rank.enqueue("a");
    auto& second = rank.enqueue("b");
    rank.step();

    rank.backend.started[1].state = State::done;
    rank.step();
    CHECK_FALSE(rank.is_done(first));
    rank.backend.started[0].state = State::done;
    rank.step();

    CHECK(rank.is_done(first));
    CHECK(rank.is_done(second));
    CHECK_FALSE(rank.executor->is_busy());
}

TEST_CASE("a communicator is opened for each set, with its first collective") {
    ExecutorFixture rank({.polls_until_done = 1});
    (void)rank.enqueue("a", 1);
    (void)rank.enqueue("b", 1);
    (void)rank.enqueue("c", 2);

    rank.step();

    CHECK(rank.backend.opened == std::vector{1, 2});
    CHECK(rank.backend.closed.empty());
}

TEST_CASE("a lane that is closed frees its communicator after its last collective") {
    const bool is_running = GENERATE(false, true);
    CAPTURE(is_running);
    ExecutorFixture rank;
    auto& operation = rank.enqueue("a", 1);
    rank.step();
    auto& waiting = rank.enqueue("b", 1);
    if (!is_running) {
        rank.backend.polls_until_done = 1;
        rank.step();
    }

    rank.executor->close(1);
    CHECK(rank.backend.closed.empty() == is_running);
    if (is_running) {
        CHECK(rank.sets[1].users == 3);
        rank.backend.polls_until_done = 1;
        rank.step();
    }

    CHECK(rank.is_done(operation));
    CHECK_FALSE(waiting.failed);
    CHECK(rank.backend.closed == std::vector{1});
    CHECK(rank.sets[1].users == 0);
    CHECK_FALSE(rank.executor->is_busy());
    CHECK(rank.executor->has_room(1));
    rank.executor->close(1);  // nothing more to do
}

TEST_CASE("a lane that is closing leaves its id to a new set") {
    ExecutorFixture rank;
    auto& old = rank.enqueue("old", 1);
    rank.step();
    rank.executor->close(1);
    REQUIRE(rank.executor->is_busy());

    CHECK(rank.executor->has_room(1));
    rank.sets[2].set.id = 1;
    auto& young = rank.enqueue("young", 2);
    rank.step();
    CHECK(rank.backend.opened == std::vector{1, 1});
    rank.backend.polls_until_done = 1;
    rank.step();
    rank.step();

    CHECK(rank.is_done(old));
    CHECK(rank.is_done(young));
    CHECK(rank.backend.closed == std::vector{1});
    CHECK(rank.sets[1].users == 0);
    CHECK(rank.sets[2].users == 1);  // the lane of the new set
}
