// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/launch_trace.hpp"

#include "launcher/model/launch_plan.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>

#include <nlohmann/json.hpp>

using hvd::launch::LaunchTrace;
using nlohmann::json;
using std::chrono::milliseconds;

namespace {

LaunchTrace::TimePoint at(int ms) {
    return LaunchTrace::TimePoint(std::chrono::hours(7)) + milliseconds(ms);
}

/// Two hosts: b's agent comes last, a answers the preflight last, rank 1 on b starts last.
LaunchTrace story() {
    LaunchTrace trace(at(0));
    trace.add_hosts({"a", "b"});
    trace.enter("link", at(1));
    trace.enter("a", "connecting", at(1));
    trace.enter("b", "connecting", at(2));
    trace.enter("a", "authentication", at(3));
    trace.done(0, at(10));
    trace.enter("b", "authentication", at(30));
    trace.done(1, at(50));
    trace.enter("plan", at(50));
    trace.enter("preflight", at(52));
    trace.done(1, at(53));
    trace.done(0, at(60));
    trace.enter("start", at(60));
    trace.started(0, 0, at(63));
    trace.started(1, 1, at(80));
    trace.finish(at(81));
    return trace;
}

json events(const LaunchTrace& trace) {
    return json::parse(trace.to_json())["traceEvents"];
}

/// The slice of that name in the process and thread, or null.
json slice(const json& all, int process, int thread, const std::string& name) {
    for (const auto& event : all) {
        if (event["ph"] == "X" && event["pid"] == process && event["tid"] == thread &&
            event["name"] == name) {
            return event;
        }
    }
    return nullptr;
}

}  // namespace

TEST_CASE("the critical path goes through whoever was last in each step") {
    CHECK(story().critical_path() ==
          "the start took 81.0 ms: b: connecting 28.0 ms, b: authentication 20.0 ms, plan 2.0 ms, "
          "preflight (last a) 8.0 ms, start (last rank 1, on b) 21.0 ms");
}

TEST_CASE("a start that has not ended has no critical path yet") {
    LaunchTrace trace(at(0));
    trace.add_hosts({"a"});
    trace.enter("link", at(0));

    CHECK(trace.critical_path().empty());

    trace.finish(at(5));
    CHECK(trace.critical_path() == "the start took 5.0 ms: link 5.0 ms");
}

TEST_CASE("each host is a process with its way, its parts and its ranks") {
    const auto all = events(story());

    CHECK(slice(all, 1, 1, "connecting")["dur"] == 2000);
    CHECK(slice(all, 1, 1, "authentication")["ts"] == 3000);
    CHECK(slice(all, 1, 1, "authentication")["dur"] == 7000);
    CHECK(slice(all, 2, 1, "preflight")["dur"] == 1000);
    CHECK(slice(all, 2, 2, "rank 1")["ts"] == 60000);
    CHECK(slice(all, 2, 2, "rank 1")["dur"] == 20000);
    CHECK(slice(all, 0, 1, "plan")["dur"] == 2000);
    CHECK(slice(all, 0, 2, "b: connecting")["dur"] == 28000);
    CHECK(slice(all, 0, 2, "a: connecting").is_null());
}

TEST_CASE("an mpirun that starts the ranks has its own name") {
    LaunchTrace trace(at(0));
    trace.add_hosts({"a"});
    trace.enter("start", at(0));
    trace.started(0, hvd::launch::kLauncherRank, at(4));
    trace.finish(at(4));

    CHECK(slice(events(trace), 1, 2, "mpirun")["dur"] == 4000);
    CHECK(trace.critical_path() == "the start took 4.0 ms: start (last mpirun, on a) 4.0 ms");
}

TEST_CASE("what was under way when a start failed ends with the trace") {
    LaunchTrace trace(at(0));
    trace.add_hosts({"a"});
    trace.enter("link", at(0));
    trace.enter("a", "connecting", at(1));
    trace.enter("other", "connecting", at(1));  // no host of the job
    trace.finish(at(9));
    trace.finish(at(99));

    const auto all = events(trace);

    CHECK(slice(all, 1, 1, "connecting")["dur"] == 8000);
    CHECK(slice(all, 0, 1, "link")["dur"] == 9000);
}
