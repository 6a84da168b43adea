// SPDX-License-Identifier: Apache-2.0
#include "runtime/timeline/timeline.hpp"

#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

using hvd::rt::Moment;
using hvd::rt::Name;
using hvd::rt::Operation;
using hvd::rt::quote_json;
using hvd::rt::Timeline;
using hvd::rt::TraceFile;
using hvd::test::TempDir;
using nlohmann::json;

namespace {

std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

/// A tensor as the engine has it.
struct Tensor {
    explicit Tensor(const std::string& text) {
        name.text = text;
        operation.name = &name;
        operation.leader = &operation;
        operation.signature.shape = {4, 2};
    }
    Name name;
    Operation operation;
};

void pass(Timeline& timeline,
          const std::vector<Operation*>& operations,
          const std::vector<Moment>& moments) {
    for (const auto moment : moments) {
        timeline.on(moment, operations, moment == Moment::started ? "shm" : "");
    }
}

const std::vector<Moment> kFused{Moment::submitted, Moment::agreed,    Moment::packing,
                                 Moment::started,   Moment::unpacking, Moment::ended};

/// The phases of the row, as "B name" or "E".
std::vector<std::string> phases(const json& trace, int row) {
    std::vector<std::string> list;
    for (const auto& event : trace) {
        const auto phase = event.at("ph").get<std::string>();
        if (event.at("pid") == row && phase != "M") {
            list.push_back(
                phase + (event.contains("name") ? " " + event.at("name").get<std::string>() : ""));
        }
    }
    return list;
}

}  // namespace

TEST_CASE("names are JSON strings, whatever they hold") {
    CHECK(quote_json("a/b") == R"("a/b")");
    CHECK(quote_json("q\"b\\n\nt\x01") == R"("q\"b\\n\u000at\u0001")");
    CHECK(quote_json("gr\xc3\xbc\xc3\x9f") == "\"gr\xc3\xbc\xc3\x9f\"");
    CHECK(quote_json("\xff\xc3(\xed\xa0\x80") == R"("\ufffd\ufffd(\ufffd\ufffd\ufffd")");
    CHECK(json::parse(quote_json("\xf0\x9f\x98\x80\x7f")).get<std::string>() ==
          "\xf0\x9f\x98\x80\x7f");
}

TEST_CASE("a trace file is JSON after each append") {
    const TempDir folder;
    const auto path = (folder.path() / "t.json").string();
    auto file = TraceFile::create(path);
    REQUIRE(file);
    CHECK(json::parse(read(path)).empty());
    for (std::size_t count = 1; count < 4; ++count) {
        REQUIRE(file->append(R"({"a": 1})"));
        CHECK(json::parse(read(path)).size() == count);
    }
    const auto missing = TraceFile::create("/no/such/folder/t.json");
    REQUIRE_FALSE(missing);
    CHECK(missing.error().message.find("/no/such/folder/t.json") != std::string::npos);
}

TEST_CASE("a trace file is JSON wherever its lines end") {
    const TempDir folder;
    const auto path = (folder.path() / "t.json").string();
    auto file = TraceFile::create(path);
    REQUIRE(file);
    std::size_t count = 0;
    for (const std::size_t length : {1U, 4070U, 4080U, 4083U, 4084U, 2000U, 2039U, 3U}) {
        for (std::size_t more = 0; more < 12; ++more) {
            const std::string line = R"({"a": ")" + std::string(length, 'x') + "\"}";
            if (line.size() > TraceFile::kMostElement) {
                CHECK_FALSE(file->append(line));
            } else {
                REQUIRE(file->append(line + ",\n{}"));
                count += 2;
            }
            const auto trace = json::parse(read(path));
            REQUIRE(trace.size() == count);
        }
    }
}

TEST_CASE("a trace file is JSON whenever its writer is killed") {
    const TempDir folder;
    std::string lines;
    for (int index = 0; index < 1000; ++index) {
        lines += (index == 0 ? "" : ",\n") + std::string("{\"ts\": ") + std::to_string(index) + "}";
    }
    int cut = 0;
    for (int round = 0; round < 50; ++round) {
        const auto path = (folder.path() / (std::to_string(round) + ".json")).string();
        auto file = TraceFile::create(path);  // by the parent: it exists, however early the end
        REQUIRE(file);
        const pid_t child = ::fork();
        if (child == 0) {
            // Not for ever: on a busy machine the parent may be late, and has to read it all.
            for (int count = 0; count < 100 && file->append(lines); ++count) {
            }
            (void)::pause();
        }
        REQUIRE(child > 0);
        std::this_thread::sleep_for(std::chrono::microseconds(500 + 27 * round));
        REQUIRE(::kill(child, SIGKILL) == 0);
        REQUIRE(::waitpid(child, nullptr, 0) == child);
        cut += json::accept(read(path)) ? 0 : 1;
    }
    CHECK(cut == 0);
}

TEST_CASE("a trace file is JSON, and goes on, where the disk was full for a while") {
    const TempDir folder;
    const auto path = (folder.path() / "t.json").string();
    // In the write of an element, in the step to the next block, and at the very first element.
    for (const rlim_t most : {rlim_t{6000}, rlim_t{8191}, rlim_t{8192}, rlim_t{4}}) {
        auto file = TraceFile::create(path);
        REQUIRE(file);
        const pid_t child = ::fork();
        if (child == 0) {
            (void)std::signal(SIGXFSZ, SIG_IGN);
            rlimit limit{};
            (void)::getrlimit(RLIMIT_FSIZE, &limit);
            limit.rlim_cur = most;
            (void)::setrlimit(RLIMIT_FSIZE, &limit);
            const std::string line = R"({"a": ")" + std::string(700, 'x') + "\"}";
            int count = 0;
            while (count < 100 && file->append(line)) {
                ++count;
            }
            const bool is_json = json::accept(read(path));
            limit.rlim_cur = limit.rlim_max;
            (void)::setrlimit(RLIMIT_FSIZE, &limit);
            const bool goes_on =
                file->append("{}") && json::accept(read(path)) && file->append(line);
            const auto trace = json::parse(read(path), nullptr, false);
            const auto expected = static_cast<std::size_t>(count) + 2;
            const bool is_whole = goes_on && !trace.is_discarded() && trace.size() == expected;
            ::_exit(count == 100 ? 1 : !is_json ? 2 : !is_whole ? 3 : 0);
        }
        REQUIRE(child > 0);
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CAPTURE(most);
        REQUIRE(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 0);
    }
}

TEST_CASE("an event fits into the file, however long its names are") {
    const TempDir folder;
    const auto path = (folder.path() / "t.json").string();
    Tensor wide(std::string(5000, '\x01'));
    wide.operation.signature.shape =
        hvd::rt::Shape(std::vector<std::int64_t>(255, std::int64_t{1} << 62));
    Tensor umlauts("a" + std::string(500, '\xc3'));
    {
        auto timeline =
            Timeline::start({.path = path, .origin = {.host = std::string(5000, '\x02')}});
        REQUIRE(timeline);
        pass(**timeline, {&wide.operation, &umlauts.operation}, kFused);
    }
    const auto trace = json::parse(read(path));
    CHECK(phases(trace, 1).size() == 12);
    CHECK(phases(trace, 2).size() == 12);
    CHECK(trace.at(1).at("args").at("name") == std::string(300, '\x01') + "...");
    CHECK(hvd::rt::shortened("a" + std::string(150, 'b') + "\xc3\xbc").size() == 153);
    std::string many = "a";
    while (many.size() < 400) {
        many += "\xc3\xbc";
    }
    CHECK(hvd::rt::shortened(many) == many.substr(0, 299) + "...");
}

TEST_CASE("a tensor is a row with the phases of the original") {
    const TempDir folder;
    const auto path = (folder.path() / "t.json").string();
    Tensor a("grad \"a\"");
    Tensor b("b");
    b.operation.process_set = 3;
    {
        auto timeline = Timeline::start({.path = path, .mark_cycles = true});
        REQUIRE(timeline);
        (*timeline)->on_cycle();
        (*timeline)->on(Moment::submitted, std::vector{&a.operation}, "");
        (*timeline)->on_announced(0, a.name.text, 1);
        pass(**timeline, {&a.operation}, {kFused.begin() + 1, kFused.end()});
        pass(**timeline, {&b.operation}, {Moment::submitted, Moment::ended});
    }

    const auto trace = json::parse(read(path));

    CHECK(trace.at(0).at("args").contains("start_time_since_epoch_in_micros"));
    CHECK(phases(trace, 0) == std::vector<std::string>{"i CYCLE_START"});
    CHECK(phases(trace, 1) ==
          std::vector<std::string>{"B NEGOTIATE_ALLREDUCE", "X 1", "E", "B ALLREDUCE", "B QUEUE",
                                   "E", "B MEMCPY_IN_FUSION_BUFFER", "E", "B SHM_ALLREDUCE", "E",
                                   "B MEMCPY_OUT_FUSION_BUFFER", "E", "E"});
    CHECK(phases(trace, 2) == std::vector<std::string>{"B NEGOTIATE_ALLREDUCE", "E"});
    std::map<int, std::string> names;
    for (const auto& event : trace) {
        if (event.at("ph") == "M" && event.at("name") == "process_name" && event.at("pid") != 0) {
            names[event.at("pid")] = event.at("args").at("name");
        }
    }
    CHECK(names == std::map<int, std::string>{{1, "grad \"a\""}, {2, "b (process set 3)"}});
    const auto last = std::find_if(trace.rbegin(), trace.rend(), [](const json& event) {
        return event.at("ph") == "E" && event.contains("args");
    });
    REQUIRE(last != trace.rend());
    CHECK(last->at("args") == json{{"dtype", "float32"}, {"shape", "[4, 2]"}});
}

TEST_CASE("the first use of a communicator, broadcasts and Adasum have the original's names") {
    const TempDir folder;
    const auto path = (folder.path() / "t.json").string();
    Tensor root("root");
    root.operation.signature.op = hvd::coll::Op::broadcast;
    Tensor step("step");
    step.operation.signature.reduce = hvd::coll::ReduceOp::adasum;
    {
        auto timeline = Timeline::start({.path = path});
        REQUIRE(timeline);
        for (auto* const operation : {&root.operation, &step.operation}) {
            const std::vector both{operation};
            (*timeline)->on(Moment::submitted, both, "");
            (*timeline)->on(Moment::agreed, both, "");
            (*timeline)->on(Moment::connecting, both, "nccl");
            (*timeline)->on(Moment::started, both, "nccl");
            (*timeline)->on(Moment::ended, both, "");
        }
    }

    const auto trace = json::parse(read(path));

    CHECK(phases(trace, 1) == std::vector<std::string>{"B NEGOTIATE_BROADCAST", "E", "B BROADCAST",
                                                       "B QUEUE", "E", "B INIT_NCCL", "E",
                                                       "B NCCL_BCAST", "E", "E"});
    CHECK(phases(trace, 2) == std::vector<std::string>{"B NEGOTIATE_ADASUM", "E", "B ADASUM",
                                                       "B QUEUE", "E", "B INIT_NCCL", "E",
                                                       "B NCCL_ADASUM_ALLREDUCE", "E", "E"});
}

TEST_CASE("operations that the queue has no room for are left out whole, and counted") {
    const TempDir folder;
    const auto path = (folder.path() / "t.json").string();
    Tensor a("a");
    constexpr int kOperations = 2000;
    {
        auto timeline = Timeline::start({.path = path, .capacity = 64});
        REQUIRE(timeline);
        for (int index = 0; index < kOperations; ++index) {
            pass(**timeline, {&a.operation}, kFused);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        pass(**timeline, {&a.operation}, kFused);
    }

    const auto trace = json::parse(read(path));

    std::int64_t lost = 0;
    std::int64_t begun = 0;
    int depth = 0;
    for (const auto& event : trace) {
        const auto phase = event.at("ph").get<std::string>();
        depth += phase == "B" ? 1 : phase == "E" ? -1 : 0;
        CHECK(depth >= 0);
        begun += phase == "B" && event.at("name") == "NEGOTIATE_ALLREDUCE" ? 1 : 0;
        lost +=
            event.value("name", "") == "LOST" ? event.at("args").at("operations").get<int>() : 0;
    }
    CHECK(depth == 0);
    CHECK(lost > 0);
    CHECK(begun + lost == kOperations + 1);
}
