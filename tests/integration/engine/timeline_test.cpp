// SPDX-License-Identifier: Apache-2.0
//
// The timeline of an engine, and what is left of it when the process is killed.
#include "tests/integration/engine/engine_rank.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

using hvd::rt::Moment;
using hvd::rt::Name;
using hvd::rt::Operation;
using hvd::rt::Timeline;
using hvd::test::allreduce;
using hvd::test::announce;
using hvd::test::EngineRank;
using hvd::test::thread_world;
using nlohmann::json;

namespace {

json read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return json::parse(text.str());
}

/// How often each activity has begun, by the name of the tensor.
std::map<std::string, std::map<std::string, int>> activities(const json& trace) {
    std::map<int, std::string> names;
    std::map<std::string, std::map<std::string, int>> counts;
    for (const auto& event : trace) {
        const int row = event.at("pid");
        const auto phase = event.at("ph").get<std::string>();
        if (phase == "M" && event.at("args").contains("name")) {
            names[row] = event.at("args").at("name");
        } else if (phase == "B" || phase == "X" || phase == "i") {
            ++counts[names[row]][event.at("name")];
        }
    }
    return counts;
}

void run_all(std::vector<std::unique_ptr<EngineRank>>& world,
             const std::vector<std::string>& names) {
    std::vector<std::vector<float>> data(world.size(), std::vector<float>(names.size(), 1.0F));
    std::vector<std::vector<Operation*>> open(world.size());
    for (std::size_t rank = 0; rank < world.size(); ++rank) {
        std::vector<hvd::rt::Request> requests;
        for (std::size_t index = 0; index < names.size(); ++index) {
            requests.push_back(allreduce(names[index], {&data[rank][index], 1}));
        }
        open[rank] = world[rank]->submit(std::move(requests));
    }
    for (std::size_t rank = 0; rank < world.size(); ++rank) {
        world[rank]->finish(open[rank]);
    }
}

/// The figures of a rank that has run allreduces of the world and nothing else.
hvd::rt::OperationMetrics metrics_of(EngineRank& rank) {
    const auto rows = rank.engine->metrics().operations;
    REQUIRE(rows.size() == 1);
    CHECK(rows.front().process_set == 0);
    CHECK(rows.front().op == hvd::coll::Op::allreduce);
    return rows.front().metrics;
}

}  // namespace

TEST_CASE("the timeline of rank 0 shows how all ranks agree and what the backend runs") {
    const hvd::test::TempDir folder;
    const auto path = (folder.path() / "t.json").string();
    auto world = thread_world(2);
    run_all(world, {"before"});
    auto& engine = *world[0]->engine;
    REQUIRE(engine.start_timeline({.path = path, .mark_cycles = true}));
    REQUIRE(engine.start_timeline({.path = path}));  // it is being written already

    run_all(world, {"a", "b"});
    run_all(world, {"a", "b"});
    REQUIRE(engine.stop_timeline());
    REQUIRE(engine.stop_timeline());  // there is none
    run_all(world, {"after"});

    const auto counts = activities(read(path));
    REQUIRE(counts.contains("a"));
    const auto& a = counts.at("a");
    CHECK(a.at("NEGOTIATE_ALLREDUCE") == 2);
    CHECK(a.at("ALLREDUCE") == 2);
    CHECK(a.at("QUEUE") == 2);
    CHECK(a.at("SHM_ALLREDUCE") == 2);
    CHECK(a.at("0") == 1);
    CHECK(a.at("1") == 1);
    CHECK(counts.at("").at("CYCLE_START") >= 2);
    CHECK_FALSE(counts.contains("before"));
    CHECK_FALSE(counts.contains("after"));
}

TEST_CASE("a timeline to another file takes the place of the one before it") {
    const hvd::test::TempDir folder;
    const auto first = (folder.path() / "first.json").string();
    const auto second = (folder.path() / "second.json").string();
    auto world = thread_world(2);
    auto& engine = *world[0]->engine;
    REQUIRE(engine.start_timeline({.path = first}));
    run_all(world, {"a"});
    REQUIRE(engine.start_timeline({.path = second}));
    CHECK(activities(read(first)).contains("a"));
    run_all(world, {"b"});
    REQUIRE(engine.stop_timeline());

    CHECK_FALSE(activities(read(first)).contains("b"));
    const auto counts = activities(read(second));
    CHECK(counts.at("b").at("ALLREDUCE") == 1);
    CHECK_FALSE(counts.contains("a"));
}

TEST_CASE("metrics count by operation and set, and tell how long a rank waits for the others") {
    constexpr std::chrono::milliseconds kLate{100};
    auto world = thread_world(2);
    CHECK(world[0]->engine->metrics().operations.empty());
    // Whether these are measured is open: a caller that waits may take them before its engine does.
    run_all(world, {"a", "b"});
    const auto first_before = metrics_of(*world[0]);
    const auto second_before = metrics_of(*world[1]);

    std::vector<float> data(2, 1.0F);
    const auto early = announce(*world[0], {allreduce("late", {data.data(), 1})});
    std::this_thread::sleep_for(kLate);
    const auto begin = std::chrono::steady_clock::now();
    world[1]->run({allreduce("late", {data.data() + 1, 1})});
    const auto run_time = std::chrono::steady_clock::now() - begin;
    world[0]->finish(early);

    const auto first = metrics_of(*world[0]);
    const auto second = metrics_of(*world[1]);
    CHECK(first.operations == 3);
    CHECK(first.bytes == 3 * sizeof(float));
    CHECK(first.collectives >= 2);
    CHECK(first.timed >= 1);
    CHECK(first.wire.count() > 0);
    CHECK(first_before.waits <= 2);
    CHECK(first.waits - first_before.waits == 1);
    CHECK(first.wait - first_before.wait >= kLate);
    CHECK(second.waits - second_before.waits <= 1);
    CHECK(second.wait - second_before.wait <= run_time);
}

TEST_CASE("a caller that sleeps until others come counts which of them came") {
    using namespace std::chrono_literals;
    auto world = thread_world(2, {.stalls = {.warning = 60s}});
    std::array<float, 2> data{1.0F, 1.0F};
    const auto run = [&](std::size_t rank) {
        std::vector<hvd::rt::Request> requests{allreduce("x", {&data.at(rank), 1})};
        std::vector<Operation*> operations;
        auto outcome = world[rank]->engine->run(requests, operations, hvd::Deadline::in(20s));
        hvd::test::require(outcome && *outcome == hvd::rt::Outcome::finished, "it did not end");
        hvd::test::value_or_throw(world[rank]->tickets.release(*operations.front()));
    };
    const auto arrivals = [&](std::size_t rank) { return world[rank]->engine->metrics().arrivals; };

    // Whether rank 0 sleeps in time is up to the kernel.
    for (int round = 0; round < 100 && (round < 2 || arrivals(0).empty()); ++round) {
        std::jthread early([&] { run(0); });
        std::this_thread::sleep_for(20ms);
        run(1);
    }

    REQUIRE(arrivals(0).size() == 1);
    const auto row = arrivals(0).front();
    CHECK(row.rank == 1);
    CHECK(row.wait > 0ns);
    CHECK(row.times <= metrics_of(*world[0]).waits);
}

TEST_CASE("an engine that ends with a timeline leaves a whole file, also of what has failed") {
    const hvd::test::TempDir folder;
    const auto path = (folder.path() / "t.json").string();
    float value = 1;
    {
        auto world = thread_world(2);
        REQUIRE(world[0]->engine->start_timeline({.path = path}));
        (void)announce(*world[0], {allreduce("lonely", {&value, 1})});
    }
    const auto trace = read(path);
    int depth = 0;
    for (const auto& event : trace) {
        depth += event.at("ph") == "B" ? 1 : event.at("ph") == "E" ? -1 : 0;
    }
    CHECK(activities(trace).at("lonely").at("NEGOTIATE_ALLREDUCE") == 1);
    CHECK(depth == 0);
}

/// Whether it has `bytes` of text, within 10 s.
bool grows_to(const std::string& path, std::size_t bytes) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end) {
        std::ifstream file(path);
        std::ostringstream text;
        text << file.rdbuf();
        if (text.str().find_last_not_of(std::string_view(" \n\0", 3)) + 1 >= bytes) {
            return true;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
}

TEST_CASE("a timeline is JSON when its process is killed") {
    const hvd::test::TempDir folder;
    for (int round = 0; round < 20; ++round) {
        const auto path = (folder.path() / (std::to_string(round) + ".json")).string();
        const pid_t child = ::fork();
        if (child == 0) {
            auto timeline = Timeline::start({.path = path});
            Name name;
            name.text = "t";
            Operation operation;
            operation.name = &name;
            Operation* one = &operation;
            while (timeline) {
                for (const auto moment : {Moment::submitted, Moment::agreed, Moment::ended}) {
                    (*timeline)->on(moment, {&one, 1}, {});
                }
                ::usleep(20);
            }
            ::_exit(1);
        }
        REQUIRE(child > 0);
        const bool has_begun = grows_to(path, 4000);
        std::this_thread::sleep_for(std::chrono::milliseconds(7 * round));
        REQUIRE(::kill(child, SIGKILL) == 0);
        REQUIRE(::waitpid(child, nullptr, 0) == child);
        REQUIRE(has_begun);
        CHECK(read(path).size() > 10);
    }
}
