// SPDX-License-Identifier: Apache-2.0
//
// An executor with a fake backend, and operations that are ready.
#pragma once

#include "runtime/execution/executor.hpp"
#include "tests/unit/runtime/fake_backend.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hvd::test {

/// Sets 0 to 2, all of this rank, which is at place 0 of two.
class ExecutorFixture {
public:
    explicit ExecutorFixture(FakeBackendState traits = {}) : backend(std::move(traits)) {
        for (int id = 0; id < 3; ++id) {
            sets.emplace_back();
            sets.back().set = {.id = id, .ranks = {0, 1}, .place = 0, .hosts = {0, 0}};
        }
        rt::Executor::Setup setup;
        setup.backends.all.push_back(make_fake_backend(backend));
        setup.backends.select = select_first;
        setup.idle_limit = std::chrono::milliseconds(5);
        executor.emplace(std::move(setup), tickets);
    }

    /// Operations of one set, submitted and ready.
    std::vector<rt::Operation*> make(std::vector<rt::Request> requests) {
        auto made = tickets.create(requests);
        REQUIRE(made);
        REQUIRE(rt::TicketTable::claim(*made));
        for (rt::Operation* operation : *made) {
            operation->set = &sets[static_cast<std::size_t>(operation->process_set)];
            ++operation->set->users;
        }
        return *std::move(made);
    }

    /// One float of value 1, executed by itself. `values` keeps it.
    rt::Operation& enqueue(const std::string& name, int process_set = 0) {
        values.emplace_back(1.0F);
        auto made = make({float_request(name, {&values.back(), 1}, process_set)});
        executor->enqueue(made, std::nullopt);
        return *made.front();
    }

    /// The same, on the devices of a list.
    rt::Operation& enqueue_on(const rt::DeviceList& list,
                              const std::string& name,
                              int process_set = 0) {
        values.emplace_back(1.0F);
        auto made = make({float_request(name, {&values.back(), 1}, process_set)});
        put_on(list, *made.front());
        executor->enqueue(made, std::nullopt);
        return *made.front();
    }

    void put_on(const rt::DeviceList& list, rt::Operation& operation) {
        operation.devices = lists.find(list);
        operation.signature.device = {.kind = coll::Device::Kind::cuda, .index = list.front()};
    }

    void step() { (void)executor->step(); }

    [[nodiscard]] static bool is_done(const rt::Operation& operation) {
        return rt::TicketTable::is_done(operation);
    }

    FakeBackendState backend;
    rt::TicketTable tickets;
    std::deque<rt::ProcessSetEntry> sets;
    std::deque<float> values;
    rt::DeviceLists lists;
    std::optional<rt::Executor> executor;
};

}  // namespace hvd::test
