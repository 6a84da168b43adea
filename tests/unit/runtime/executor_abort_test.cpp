// SPDX-License-Identifier: Apache-2.0
//
// Backends that fail, and worlds that end.
#include "tests/unit/runtime/executor_fixture.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using hvd::Errc;
using hvd::Error;
using hvd::rt::Operation;
using hvd::test::ExecutorFixture;
using hvd::test::float_request;
using State = hvd::test::FakeCollective::State;

namespace {

void require_failed(const Operation& operation, const std::string& cause) {
    CHECK(ExecutorFixture::is_done(operation));
    REQUIRE(operation.failed);
    CHECK(operation.error.message ==
          cause + "; '" + operation.name->text + "' (allreduce) was not finished");
}

}  // namespace

TEST_CASE("a collective that cannot start fails its operations, and breaks the world") {
    ExecutorFixture rank({.start_error = Error{Errc::unavailable, "no memory"}});
    std::vector<float> data(2);
    const auto together =
        rank.make({float_request("a", {data.data(), 1}), float_request("b", {data.data() + 1, 1})});
    rank.executor->enqueue(together, std::nullopt);

    rank.step();

    require_failed(*together[0], "fake: no memory");
    require_failed(*together[1], "fake: no memory");
    REQUIRE(rank.executor->broken());
    CHECK(rank.executor->broken()->code == Errc::unavailable);
    CHECK_FALSE(rank.executor->is_busy());
}

TEST_CASE("after a failure nothing is started, in no set, and the first cause is told") {
    ExecutorFixture rank({.start_error = Error{Errc::unavailable, "no memory"}});
    (void)rank.enqueue("a");
    rank.step();
    rank.backend.start_error.reset();

    auto& later = rank.enqueue("b", 1);
    rank.step();

    require_failed(later, "fake: no memory");
    CHECK(rank.backend.started.empty());
}

TEST_CASE("a work that fails fails its operations, once") {
    ExecutorFixture rank;
    auto& operation = rank.enqueue("a");
    auto& next = rank.enqueue("b");
    int ends = 0;
    REQUIRE(hvd::rt::TicketTable::on_complete(operation, [&](const Error*) {
        ++ends;
        return hvd::ok();
    }));
    rank.step();

    rank.backend.started.front().state = State::failed;
    rank.step();

    require_failed(operation, "the cable is cut");
    require_failed(next, "the cable is cut");
    CHECK(ends == 1);
    CHECK_FALSE(rank.backend.started.front().is_alive);
    CHECK(rank.executor->broken());
    CHECK_FALSE(rank.executor->is_busy());
}

TEST_CASE("a work that fails in the stream has completed its operations before") {
    ExecutorFixture rank({.max_in_flight = 2});
    auto& operation = rank.enqueue("a");
    rank.step();
    rank.backend.started.front().state = State::enqueued;
    rank.step();
    REQUIRE(rank.is_done(operation));

    rank.backend.started.front().state = State::failed;
    rank.step();

    CHECK(rank.executor->broken());
    CHECK_FALSE(operation.failed);
    CHECK(rank.tickets.completed() == 1);
}

TEST_CASE("a group fails when one of its collectives does, after the last of them") {
    ExecutorFixture rank;
    std::vector<float> data(2);
    std::vector requests{float_request("a", {data.data(), 1}, 0, 1),
                         float_request("b", {data.data() + 1, 1}, 0, 1)};
    requests[1].signature.type = hvd::coll::DataType::i32;
    const auto operations = rank.make(requests);
    rank.executor->enqueue({operations.data(), 1}, std::nullopt);
    rank.step();
    rank.backend.started.front().state = State::done;
    rank.step();

    rank.backend.started.back().state = State::failed;
    rank.step();

    for (const Operation* operation : operations) {
        CHECK(rank.is_done(*operation));
        REQUIRE(operation->failed);
        CHECK(operation->error.message == "the cable is cut; 'a' (allreduce) was not finished");
    }
}

TEST_CASE("a workspace that is too small is an error, not a crash") {
    ExecutorFixture rank({.gathers = false, .workspace_bytes = 4});
    std::vector<float> data(2);
    const auto operations =
        rank.make({float_request("a", {data.data(), 1}), float_request("b", {data.data() + 1, 1})});
    rank.executor->enqueue(operations, std::nullopt);

    rank.step();

    CHECK(operations.front()->failed);
    CHECK(operations.front()->error.code == Errc::internal);
}

TEST_CASE("what no backend can do is an error") {
    ExecutorFixture rank({.device = hvd::coll::Device::Kind::cuda});
    auto& operation = rank.enqueue("a");

    rank.step();

    require_failed(operation, "no backend runs allreduce of float32; there are fake");
}

TEST_CASE("a communicator that cannot be opened leaves its batch to the abort") {
    ExecutorFixture rank({.open_error = Error{Errc::unavailable, "too many open files"}});
    auto& operation = rank.enqueue("a");

    CHECK_THROWS_AS(rank.executor->step(), hvd::Exception);
    CHECK_FALSE(rank.is_done(operation));
    rank.executor->abort({Errc::unavailable, "too many open files"});

    require_failed(operation, "too many open files");
    CHECK_FALSE(rank.executor->is_busy());
}

TEST_CASE("an abort fails what runs and what waits, in all sets, with its cause") {
    ExecutorFixture rank;
    auto& running = rank.enqueue("a");
    auto& waiting = rank.enqueue("b");
    auto& other = rank.enqueue("c", 1);
    rank.step();

    rank.executor->abort({Errc::unavailable, "rank 3 has died"});

    for (const auto* operation : {&running, &waiting, &other}) {
        require_failed(*operation, "rank 3 has died");
    }
    CHECK(rank.backend.aborts == std::vector<std::string>(2, "rank 3 has died"));
    CHECK_FALSE(rank.backend.started.front().is_alive);
    CHECK_FALSE(rank.executor->is_busy());
    auto& later = rank.enqueue("d");
    rank.step();
    require_failed(later, "rank 3 has died");
}

TEST_CASE("an abort leaves alone what has completed into the stream") {
    ExecutorFixture rank({.max_in_flight = 2});
    auto& operation = rank.enqueue("a");
    auto& behind = rank.enqueue("b");
    rank.step();
    rank.backend.started.front().state = State::enqueued;
    rank.step();

    rank.executor->abort({Errc::aborted, "over"});

    CHECK_FALSE(operation.failed);
    require_failed(behind, "over");
    CHECK(rank.tickets.completed() == 2);
}

TEST_CASE("an abort frees a lane that was closing") {
    ExecutorFixture rank;
    (void)rank.enqueue("a", 1);
    rank.step();
    rank.executor->close(1);

    rank.executor->abort({Errc::aborted, "over"});

    CHECK(rank.backend.closed == std::vector{1});
    CHECK(rank.sets[1].users == 0);
}

TEST_CASE("an executor that goes gives its process sets back") {
    ExecutorFixture rank({.polls_until_done = 1});
    (void)rank.enqueue("a", 1);
    rank.step();
    CHECK(rank.sets[1].users == 1);

    rank.executor.reset();

    CHECK(rank.sets[1].users == 0);
}
