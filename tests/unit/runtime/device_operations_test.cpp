// SPDX-License-Identifier: Apache-2.0
//
// Operations on tensors of devices as they are submitted, with devices that only take notes.
#include "runtime/engine/device_operations.hpp"

#include "runtime/engine/inbox.hpp"
#include "runtime/engine/staged_copies.hpp"
#include "runtime/tensor/ticket_table.hpp"
#include "tests/unit/runtime/fake_backend.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

using hvd::coll::Device;
using hvd::coll::DevicePlace;
using hvd::rt::DeviceOperations;
using hvd::rt::Kind;
using hvd::rt::Operation;
using hvd::rt::Request;

namespace {

class NotingDevices final : public hvd::coll::DeviceTensors {
public:
    void attach(int device) override {
        if (!is_attached(device)) {
            attached.push_back(device);
        }
    }
    [[nodiscard]] int first_attached() const noexcept override {
        return attached.empty() ? -1 : attached.front();
    }
    [[nodiscard]] bool is_attached(int device) const noexcept override {
        return std::ranges::find(attached, device) != attached.end();
    }
    [[nodiscard]] hvd::coll::SharedEvent ready(const DevicePlace& place) override {
        asked.push_back(place.index);
        return std::make_shared<hvd::test::FakeEvent>();
    }
    [[nodiscard]] hvd::coll::DeviceBytes allocate(int /*device*/, std::size_t /*bytes*/) override {
        return {};
    }
    [[nodiscard]] hvd::coll::DeviceBytes upload(int /*device*/,
                                                std::span<const std::byte> /*bytes*/) override {
        return {};
    }
    void while_quiet(const std::function<void()>& action) override { action(); }

    std::vector<int> attached;
    std::vector<int> asked;
};

Request on(int device, const std::string& name, std::span<float> data) {
    auto request = hvd::test::float_request(name, data);
    request.device = DevicePlace{.index = device};
    return request;
}

Request join_of() {
    Request join;
    join.name = "join";
    join.signature.kind = Kind::join;
    return join;
}

}  // namespace

TEST_CASE("tensors of one call on the default streams of two devices have an event on each") {
    NotingDevices devices;
    hvd::rt::TicketTable tickets;
    std::vector<float> data(3);
    std::vector<Request> requests;
    requests.push_back(on(0, "a", {data.data(), 1}));
    requests.push_back(on(1, "b", {data.data() + 1, 1}));
    requests.push_back(on(1, "c", {data.data() + 2, 1}));
    const auto operations = *tickets.create(requests);

    REQUIRE(DeviceOperations(&devices, nullptr).prepare(operations));

    CHECK(devices.attached == std::vector{0, 1});
    CHECK(devices.asked == std::vector{0, 1});  // of those on one stream one event is enough
    CHECK(operations[0]->on_device->ready != operations[1]->on_device->ready);
    CHECK(operations[1]->on_device->ready == operations[2]->on_device->ready);
    CHECK(operations[1]->signature.device == Device{.kind = Device::Kind::cuda, .index = 1});
}

TEST_CASE("where NCCL connects no hosts, sums alone stay on the GPUs of a set on several hosts") {
    NotingDevices devices;
    hvd::rt::TicketTable tickets;
    hvd::rt::ProcessSetTable sets(
        {.id = 0, .ranks = {0, 1, 2}, .place = 0, .hosts = {0, 0, 2}, .incarnation = 0});
    (void)sets.add(1, std::vector<std::int64_t>{0, 1});
    const DeviceOperations preparing(&devices, &sets);
    float value = 1;
    const auto stays = [&](int set, hvd::coll::Op op, hvd::coll::ReduceOp reduce) {
        auto request = on(0, "a", {&value, 1});
        request.process_set = set;
        request.signature.op = op;
        request.signature.reduce = reduce;
        const auto operations = *tickets.create({&request, 1});
        REQUIRE(preparing.prepare(operations));
        return operations.front()->staged == nullptr;
    };
    using enum hvd::coll::Op;
    using enum hvd::coll::ReduceOp;

    CHECK(stays(0, allreduce, sum));
    CHECK(stays(0, allreduce, average));
    CHECK_FALSE(stays(0, allreduce, adasum));
    CHECK_FALSE(stays(0, reducescatter, sum));
    CHECK_FALSE(stays(0, broadcast, sum));
    CHECK(stays(1, broadcast, sum));
    CHECK(stays(1, allreduce, adasum));
    CHECK_FALSE(stays(1, allreduce, adasum_across_hosts));
}

TEST_CASE("a join names the GPU that it is given, else the first that the rank has used") {
    NotingDevices devices;
    hvd::rt::TicketTable tickets;
    const DeviceOperations preparing(&devices, nullptr);
    const auto device_of = [&](const Request& request) {
        auto copy = request;
        const auto operations = *tickets.create({&copy, 1});
        REQUIRE(preparing.prepare(operations));
        return operations.front()->signature.device;
    };

    CHECK(device_of(join_of()).is_host());
    devices.attached = {3, 1};
    CHECK(device_of(join_of()) == Device{.kind = Device::Kind::cuda, .index = 3});
    auto named = join_of();
    named.device = DevicePlace{.index = 2};
    CHECK(device_of(named) == Device{.kind = Device::Kind::cuda, .index = 2});
}

TEST_CASE(
    "a build without CUDA refuses tensors of GPUs, by name, and takes a join that names one") {
    hvd::rt::TicketTable tickets;
    hvd::rt::Inbox<Operation*> inbox;
    const DeviceOperations without(nullptr, nullptr);
    hvd::rt::StagedCopies copies(nullptr, inbox);
    float value = 1;
    std::vector<Request> requests;
    requests.push_back(on(0, "a", {&value, 1}));
    const auto operations = *tickets.create(requests);

    REQUIRE(without.prepare(operations));
    const auto refused = copies.prepare(operations);

    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == hvd::Errc::unsupported);
    CHECK(refused.error().message ==
          "tensor 'a': this build takes tensors in host memory only: copy it to the CPU");
    std::vector<Request> joins{join_of()};
    joins.front().device = DevicePlace{.index = 0};
    const auto joined = *tickets.create(joins);
    REQUIRE(without.prepare(joined));
    CHECK(copies.prepare(joined));
    CHECK(joined.front()->signature.device.is_host());
}
