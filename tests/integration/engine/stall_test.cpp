// SPDX-License-Identifier: Apache-2.0
//
// Operations that some ranks wait with for others.
#include "tests/integration/engine/engine_rank.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

using hvd::Exception;
using hvd::rt::Operation;
using hvd::rt::Request;
using hvd::test::allreduce;
using hvd::test::EngineRank;
using hvd::test::thread_world;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr milliseconds kWarning{300};
constexpr std::chrono::seconds kLimit{10};

using World = std::vector<std::unique_ptr<EngineRank>>;

std::vector<std::string> stalls_of(EngineRank& rank) {
    const std::lock_guard lock(rank.mutex);
    return rank.stalls;
}

/// The warnings of all ranks, as soon as there are as many.
std::vector<std::string> await_stalls(World& world, std::size_t count = 1) {
    std::vector<std::string> all;
    for (const auto end = Clock::now() + kLimit; all.size() < count && Clock::now() < end;) {
        std::this_thread::sleep_for(milliseconds(5));
        all.clear();
        for (auto& rank : world) {
            const auto its = stalls_of(*rank);
            all.insert(all.end(), its.begin(), its.end());
        }
    }
    return all;
}

std::vector<Request> requests(const std::vector<std::string>& names, std::vector<float>& data) {
    std::vector<Request> all;
    for (std::size_t index = 0; index < names.size(); ++index) {
        all.push_back(allreduce(names[index], {&data[index], 1}));
    }
    return all;
}

/// Each rank of a world has its own.
struct Data {
    explicit Data(std::size_t ranks) : of(ranks, std::vector<float>(64, 1.0F)) {}
    std::vector<std::vector<float>> of;
};

void finish_all(World& world, std::vector<std::vector<Operation*>>& open) {
    for (std::size_t rank = 0; rank < world.size(); ++rank) {
        world[rank]->finish(open[rank]);
    }
}

/// All ranks run the tensors once, so that they are cached.
void warm_up(World& world, Data& data, const std::vector<std::string>& names) {
    std::vector<std::vector<Operation*>> open(world.size());
    for (std::size_t rank = 0; rank < world.size(); ++rank) {
        open[rank] = world[rank]->submit(requests(names, data.of[rank]));
    }
    finish_all(world, open);
}

/// Each rank adds the set.
int add_set(World& world, const std::vector<int>& ranks) {
    std::vector<int> ids(world.size());
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < world.size(); ++rank) {
        threads.emplace_back([&, rank] { ids[rank] = hvd::test::add_set(*world[rank], ranks); });
    }
    threads.clear();
    return ids.front();
}

/// An allreduce of one element among the members of the set.
std::vector<Request> in_set(int set, const std::string& name, std::vector<float>& data) {
    auto all = requests({name}, data);
    all.front().process_set = set;
    return all;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("tensors that a rank has not submitted are one line, new ones and cached ones") {
    const bool is_cached = GENERATE(false, true);
    const std::size_t missing = GENERATE(0U, 2U);
    CAPTURE(is_cached, missing);
    auto world = thread_world(3, {.stalls = {.warning = kWarning}});
    Data data(3);
    const std::vector<std::string> names{"g.0", "g.1", "g.2", "g.3", "g.4"};
    if (is_cached) {
        warm_up(world, data, names);
    }
    std::vector<std::vector<Operation*>> open(3);
    const auto start = Clock::now();
    for (std::size_t rank = 0; rank < 3; ++rank) {
        if (rank != missing) {
            open[rank] = world[rank]->submit(requests(names, data.of[rank]));
        }
    }

    const auto told = await_stalls(world);

    const auto after = Clock::now() - start;
    CHECK(after >= kWarning - milliseconds(10));
    CHECK(after < kWarning * 10);
    REQUIRE(told.size() == 1);
    CAPTURE(told.front());
    CHECK(stalls_of(*world[0]).size() == 1);
    CHECK(contains(told.front(), missing == 0 ? "ranks 1-2 have waited" : "ranks 0-1 have waited"));
    // Three of them: which ones waited first depends on the threads.
    CHECK(contains(told.front(), "with 'g."));
    CHECK(contains(told.front(), " and 2 more for rank " + std::to_string(missing) +
                                     ", which has not submitted them"));
    CHECK(contains(told.front(), "pid "));

    // Nothing is wrong with a rank that is late.
    open[missing] = world[missing]->submit(requests(names, data.of[missing]));
    finish_all(world, open);
    warm_up(world, data, names);
    CHECK(await_stalls(world, 1).size() == 1);
}

TEST_CASE("a cached tensor that callers wait for stalls no more silently than others") {
    auto world = thread_world(3, {.stalls = {.warning = kWarning}});
    Data data(3);
    warm_up(world, data, {"loss"});
    std::vector<std::jthread> callers;
    for (const std::size_t rank : {1U, 2U}) {
        callers.emplace_back([&, rank] { world[rank]->run(requests({"loss"}, data.of[rank])); });
    }

    const auto told = await_stalls(world);

    REQUIRE(told.size() == 1);
    CHECK(contains(told.front(), "ranks 1-2 have waited"));
    CHECK(contains(told.front(), "with 'loss' for rank 0, which has not submitted it"));
    world[0]->run(requests({"loss"}, data.of[0]));
}

TEST_CASE("a stall that lasts for the shutdown time ends the world and names who is missing") {
    const bool is_cached = GENERATE(false, true);
    const std::size_t missing = GENERATE(0U, 2U);
    CAPTURE(is_cached, missing);
    auto world = thread_world(3, {.stalls = {.warning = kWarning, .shutdown = kWarning * 2}});
    Data data(3);
    if (is_cached) {
        warm_up(world, data, {"grad"});
    }
    std::vector<std::jthread> callers;
    std::vector<std::string> failed(3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
        if (rank != missing) {
            callers.emplace_back([&, rank] {
                try {
                    world[rank]->run(requests({"grad"}, data.of[rank]));
                } catch (const Exception& exception) {
                    failed[rank] = exception.error().message;
                }
            });
        }
    }
    callers.clear();

    for (std::size_t rank = 0; rank < 3; ++rank) {
        CAPTURE(rank, failed[rank]);
        if (rank != missing) {
            CHECK(contains(failed[rank], "with 'grad' for rank " + std::to_string(missing)));
            CHECK(contains(failed[rank], "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"));
            CHECK(world[rank]->lost_peer == static_cast<int>(missing));
        } else {
            CHECK(world[rank]->lost_peer == -1);
        }
    }
}

TEST_CASE("all ranks that are missing are to blame for a stall that ends the world") {
    const bool is_cached = GENERATE(false, true);
    CAPTURE(is_cached);
    auto world = thread_world(4, {.stalls = {.warning = kWarning, .shutdown = kWarning * 2}});
    Data data(4);
    if (is_cached) {
        warm_up(world, data, {"grad"});
    }
    std::vector<std::jthread> callers;
    std::atomic<int> failed = 0;
    for (const std::size_t rank : {0U, 2U}) {
        callers.emplace_back([&, rank] {
            try {
                world[rank]->run(requests({"grad"}, data.of[rank]));
            } catch (const Exception&) {
                ++failed;
            }
        });
    }
    callers.clear();

    CHECK(failed == 2);
    const auto blames = [](const auto& rank) { return rank->blamed == std::vector<int>{1, 3}; };
    CHECK(std::ranges::any_of(world, blames));
    for (const auto& rank : world) {
        CHECK((rank->blamed.empty() || blames(rank)));
    }
}

TEST_CASE("a stall in a process set names the set and its members, new tensors and cached ones") {
    const bool is_cached = GENERATE(false, true);
    const std::size_t missing = GENERATE(1U, 3U);
    CAPTURE(is_cached, missing);
    auto world = thread_world(4, {.stalls = {.warning = kWarning}});
    Data data(4);
    const int set = add_set(world, {1, 3});
    const std::size_t waiting = 4 - missing;
    std::vector<std::vector<Operation*>> open(4);
    const auto submit = [&](std::size_t rank) {
        open[rank] = world[rank]->submit(in_set(set, "grad", data.of[rank]));
    };
    const auto finish_members = [&] {
        world[1]->finish(open[1]);
        world[3]->finish(open[3]);
    };
    if (is_cached) {
        submit(1);
        submit(3);
        finish_members();
    }
    submit(waiting);

    const auto told = await_stalls(world);

    REQUIRE(told.size() == 1);
    CAPTURE(told.front());
    CHECK(contains(told.front(), "rank " + std::to_string(waiting) + " has waited for "));
    CHECK(contains(told.front(), "with 'grad' in process set " + std::to_string(set) +
                                     " for rank " + std::to_string(missing) +
                                     ", which has not submitted it"));
    // The world goes on meanwhile.
    warm_up(world, data, {"of all"});
    submit(missing);
    finish_members();
}

TEST_CASE(
    "a stall in a process set that lasts ends the world, and its missing member is to blame") {
    const bool is_cached = GENERATE(false, true);
    CAPTURE(is_cached);
    auto world = thread_world(4, {.stalls = {.warning = kWarning, .shutdown = kWarning * 2}});
    Data data(4);
    const int set = add_set(world, {1, 3});
    std::vector<std::vector<Operation*>> open(4);
    if (is_cached) {
        for (const std::size_t rank : {1U, 3U}) {
            open[rank] = world[rank]->submit(in_set(set, "grad", data.of[rank]));
        }
        world[1]->finish(open[1]);
        world[3]->finish(open[3]);
    }

    const auto failed = world[1]->failure_of(in_set(set, "grad", data.of[1]));

    CAPTURE(failed.message);
    CHECK(contains(failed.message,
                   "with 'grad' in process set " + std::to_string(set) + " for rank 3"));
    CHECK(contains(failed.message, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"));
    CHECK(world[1]->lost_peer == 3);
    const auto blames = [](const auto& rank) { return rank->blamed == std::vector<int>{3}; };
    CHECK(std::ranges::any_of(world, blames));
}

TEST_CASE("an engine that looks for stalls sleeps while nothing is open") {
    auto world = thread_world(2, {.stalls = {.warning = milliseconds(50)}});
    Data data(2);
    warm_up(world, data, {"a"});
    std::this_thread::sleep_for(milliseconds(150));
    const auto before =
        world[0]->engine->counters().engine_wakeups + world[1]->engine->counters().engine_wakeups;

    std::this_thread::sleep_for(milliseconds(400));

    CHECK(world[0]->engine->counters().engine_wakeups +
              world[1]->engine->counters().engine_wakeups ==
          before);
    CHECK(stalls_of(*world[0]).empty());
}
