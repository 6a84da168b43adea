// SPDX-License-Identifier: Apache-2.0
//
// A blocking call of the C ABI, and the collective in it alone, by turns: `against_raw ROUNDS
// [CASE...]` under horovodrun, on one host.
#include "collectives/base/deadline.hpp"
#include "collectives/shm/factory.hpp"
#include "collectives/transport/shm/local_group.hpp"
#include "tests/bench/collectives/comparison.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include "hvd/hvd.hpp"

namespace {

using hvd::Request;
using hvd::bench::Comparison;

/// The shared memory of the ranks, beside that of the world.
std::unique_ptr<hvd::coll::LocalGroup> form_group(hvd::World& world) {
    std::vector<std::int64_t> first{static_cast<std::int64_t>(getpid())};
    world.broadcast("first", std::span(first), 0);
    auto group =
        hvd::coll::LocalGroup::form({.rank = world.rank(),
                                     .size = world.size(),
                                     .name = "against_raw/" + std::to_string(first.front()),
                                     .segments = {hvd::coll::shm::segment_bytes(world.size())}},
                                    hvd::Deadline::in(std::chrono::seconds(10)));
    if (!group) {
        throw std::runtime_error(group.error().message);
    }
    return std::move(group).value();
}

void compare(hvd::World& world, const Comparison& comparison) {
    const auto group = form_group(world);
    const auto backend = hvd::coll::shm::create(hvd::coll::shm::share(*group, 0));
    hvd::coll::Topology topology{};
    topology.rank = world.rank();
    topology.size = world.size();
    topology.local_rank = world.rank();
    topology.local_size = world.size();
    const auto communicator = backend->open(hvd::coll::world_of(topology), {});
    float value = 1;
    auto* const bytes = reinterpret_cast<std::byte*>(&value);
    const hvd::coll::Task task{.op = hvd::coll::Op::allreduce,
                               .segments = {{.in = bytes, .out = bytes, .count = 1}}};
    const auto raw_call = [&] {
        auto work = communicator->start(task);
        while ((*work)->poll().value() != hvd::coll::Work::Progress::done) {
        }
    };
    const auto request =
        Request::allreduce("run", std::span(&value, 1), {.op = hvd::ReduceOp::sum});
    Request::with_raw(std::span(&request, 1), [&](std::span<const hvd_request> requests) {
        comparison.run(
            "run", sizeof value,
            [&] {
                hvd_ticket ticket = 0;
                if (hvd_run(world.context(), requests.data(), 1, &ticket, -1) != HVD_OK) {
                    throw std::runtime_error(hvd_last_error());
                }
                (void)hvd_release(world.context(), ticket);
            },
            raw_call);
    });
    auto plan = world.plan(request);
    comparison.run(
        "plan", sizeof value, [&] { plan.run(); }, raw_call);
}

}  // namespace

int main(int argc, char** argv) {
    const std::span<char* const> arguments(argv, static_cast<std::size_t>(argc));
    if (arguments.size() < 2) {
        return 2;
    }
    try {
        hvd::World world;
        const auto largest = [&](double value) {
            world.allreduce("largest", std::span(&value, 1), {.op = hvd::ReduceOp::max});
            return value;
        };
        compare(world, Comparison(std::atoi(arguments[1]), world.rank() == 0, arguments.subspan(2),
                                  largest));
    } catch (const std::exception& failure) {
        (void)std::fprintf(stderr, "against_raw: %s\n", failure.what());
        return 1;
    }
    return 0;
}
