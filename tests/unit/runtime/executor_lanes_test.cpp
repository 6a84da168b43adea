// SPDX-License-Identifier: Apache-2.0
//
// The lanes of a process set: one for the hosts' memory, one for each list of its members' devices.
#include "tests/unit/runtime/executor_fixture.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

using hvd::Errc;
using hvd::coll::DataType;
using hvd::coll::Device;
using hvd::rt::DeviceList;
using hvd::test::ExecutorFixture;
using hvd::test::FakeBackendState;
using hvd::test::float_request;
using State = hvd::test::FakeCollective::State;

namespace {

// The fixture's rank is at the first place of two.
const DeviceList kSame{0, 0};
const DeviceList kOther{1, 0};

FakeBackendState devices_and_hosts() {
    return {.device = std::nullopt, .max_in_flight = 4};
}

/// The devices on which collectives have started here, in order; -1 for the host.
std::vector<int> started_on(const ExecutorFixture& rank) {
    std::vector<int> devices;
    for (const auto& collective : rank.backend.started) {
        const auto& device = collective.task.device;
        devices.push_back(device.is_host() ? -1 : device.index);
    }
    return devices;
}

}  // namespace

TEST_CASE("each list of devices has a communicator of its own, on this rank's device") {
    ExecutorFixture rank(devices_and_hosts());
    rank.backend.is_stream = true;
    for (const auto* const list : {&kSame, &kOther, &kSame}) {
        (void)rank.enqueue_on(*list, "a" + std::to_string(rank.values.size()));
    }
    (void)rank.enqueue("of the hosts");

    for (int turn = 0; turn < 4; ++turn) {
        rank.step();
    }

    auto opened = rank.backend.opened_on;
    std::erase_if(opened, [](Device device) { return device.is_host(); });
    CHECK(opened == std::vector<Device>{{.kind = Device::Kind::cuda, .index = 0},
                                        {.kind = Device::Kind::cuda, .index = 1}});
    auto devices = started_on(rank);
    std::erase(devices, -1);
    CHECK(devices == std::vector{0, 1, 0});
}

TEST_CASE("batches of all devices start in the log's order, one after the other") {
    ExecutorFixture rank(devices_and_hosts());
    (void)rank.enqueue_on(kOther, "a", 1);
    auto& second = rank.enqueue_on(kSame, "b", 0);
    rank.step();
    rank.step();
    REQUIRE(started_on(rank) == std::vector{1});

    rank.backend.started[0].state = State::enqueued;
    rank.step();
    rank.step();

    CHECK(started_on(rank) == std::vector{1, 0});
    CHECK_FALSE(rank.is_done(second));
    rank.backend.started[1].state = State::enqueued;
    rank.step();
    CHECK(rank.is_done(second));  // though the first one is in its stream still
}

TEST_CASE("tensors fuse only where all members have theirs on the same devices") {
    ExecutorFixture rank(devices_and_hosts());
    rank.backend.is_stream = true;
    std::vector<float> data(5, 1);
    std::vector<hvd::rt::Request> requests;
    for (std::size_t index = 0; index < data.size(); ++index) {
        requests.push_back(float_request(std::to_string(index), {&data[index], 1}));
    }
    const auto operations = rank.make(std::move(requests));
    rank.put_on(kSame, *operations[0]);
    rank.put_on(kOther, *operations[1]);
    rank.put_on({0, 1}, *operations[2]);  // the same device as the first, here
    rank.put_on(kSame, *operations[3]);

    rank.executor->enqueue(operations, std::nullopt);
    for (int turn = 0; turn < 5; ++turn) {
        rank.step();
    }

    std::vector<std::pair<int, std::size_t>> sizes;
    for (const auto& collective : rank.backend.started) {
        const auto& device = collective.task.device;
        sizes.emplace_back(device.is_host() ? -1 : device.index, collective.task.segments.size());
    }
    std::ranges::sort(sizes);
    CHECK(sizes == std::vector<std::pair<int, std::size_t>>{{-1, 1}, {0, 1}, {0, 2}, {1, 1}});
}

TEST_CASE("a group whose tensors are on several devices ends with the last of them") {
    ExecutorFixture rank(devices_and_hosts());
    std::vector<float> data(2, 1);
    const auto operations = rank.make({float_request("a", {data.data(), 1}, 0, 7),
                                       float_request("b", {data.data() + 1, 1}, 0, 7)});
    rank.put_on(kSame, *operations[0]);
    rank.put_on(kOther, *operations[1]);
    rank.executor->enqueue({operations.data(), 1}, std::nullopt);
    rank.step();
    rank.step();

    rank.backend.started[0].state = State::enqueued;
    rank.step();
    rank.step();
    CHECK_FALSE(rank.is_done(*operations[0]));
    rank.backend.started[1].state = State::enqueued;
    rank.step();

    CHECK(rank.is_done(*operations[0]));
    CHECK(rank.is_done(*operations[1]));
    CHECK(operations[0]->event != operations[1]->event);
}

TEST_CASE("while a communicator is being prepared other sets go on, and its own set keeps order") {
    auto traits = devices_and_hosts();
    traits.info_bytes = 8;
    traits.has_info = false;
    traits.polls_until_done = 1;
    ExecutorFixture rank(traits);
    auto& waiting = rank.enqueue_on(kSame, "a");
    auto& behind = rank.enqueue("b");
    auto& elsewhere = rank.enqueue("c", 1);
    for (int turn = 0; turn < 3; ++turn) {
        rank.step();
    }
    CHECK(rank.is_done(elsewhere));
    CHECK_FALSE(rank.is_done(behind));
    CHECK(rank.executor->next_look().is_before(hvd::Deadline::in(std::chrono::milliseconds(10))));

    rank.backend.has_info = true;
    for (int turn = 0; turn < 3; ++turn) {
        rank.step();
    }

    CHECK(rank.is_done(waiting));
    CHECK(rank.is_done(behind));
    REQUIRE(rank.backend.started.size() == 4);
    CHECK(rank.backend.started[1].task.type == DataType::u8);  // the exchange, before what follows
}

TEST_CASE("the end of a set fails all of its lanes, also one that waits for its communicator") {
    auto traits = devices_and_hosts();
    traits.has_info = false;
    ExecutorFixture rank(traits);
    auto& waiting = rank.enqueue_on(kOther, "a", 1);
    auto& behind = rank.enqueue("b", 1);
    rank.step();

    rank.executor->end(1, {Errc::aborted, "rank 3 has shut down"});
    rank.executor->abort_ending();

    for (const auto* const operation : {&waiting, &behind}) {
        REQUIRE(rank.is_done(*operation));
        CHECK(operation->failed);
    }
    CHECK_FALSE(rank.executor->is_busy());
    CHECK_FALSE(rank.executor->broken());
}

TEST_CASE("after an abort an operation of a list that was not seen before fails at once") {
    ExecutorFixture rank(devices_and_hosts());
    rank.executor->abort({Errc::unavailable, "rank 3 has died"});

    auto& operation = rank.enqueue_on(kSame, "a");
    rank.step();
    rank.step();

    REQUIRE(rank.is_done(operation));
    CHECK(operation.error.message.find("rank 3 has died") != std::string::npos);
    CHECK_FALSE(rank.executor->is_busy());
}

TEST_CASE("a set that was closed is freed once all of its lanes are idle") {
    ExecutorFixture rank(devices_and_hosts());
    (void)rank.enqueue_on(kSame, "a", 1);
    rank.step();
    rank.step();
    (void)rank.enqueue("b", 1);
    rank.step();
    rank.executor->close(1);

    rank.backend.started[1].state = State::done;
    rank.step();
    CHECK(rank.backend.closed.empty());
    rank.backend.started[0].state = State::done;
    rank.step();

    CHECK(rank.backend.closed.size() == 2);
    CHECK(rank.sets[1].users == 0);
}
