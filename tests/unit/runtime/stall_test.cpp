// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/stall.hpp"

#include "runtime/negotiation/coordinator.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <variant>
#include <vector>

using hvd::rt::Announcement;
using hvd::rt::Coordinator;
using hvd::rt::Decision;
using hvd::rt::Invalidation;
using hvd::rt::StallInspector;
using hvd::rt::Waiting;
using std::chrono::milliseconds;
using std::chrono::seconds;
using TimePoint = StallInspector::TimePoint;

namespace {

constexpr TimePoint kStart{std::chrono::hours(1)};

Waiting tensor(std::string name, seconds after = seconds(0)) {
    return {.name = std::move(name), .waiting = {0, 1, 2}, .missing = {3}, .since = kStart + after};
}

std::vector<std::string> texts(const StallInspector::Findings& findings) {
    std::vector<std::string> lines;
    for (const auto& report : findings.reports) {
        lines.push_back(report.text);
    }
    return lines;
}

Announcement announcement(const std::string& name) {
    return {.members = {{.name = name, .signature = {.shape = {4}}}}};
}

}  // namespace

TEST_CASE("a stall is reported after the warning time, and each time that it has doubled") {
    StallInspector inspector({.warning = seconds(60)});
    const std::vector<Waiting> all{tensor("grad")};

    const auto early = inspector.look(kStart + seconds(59), all);
    CHECK(early.reports.empty());
    CHECK(early.next == kStart + seconds(60));

    const auto first = inspector.look(kStart + seconds(60), all);
    CHECK(texts(first) ==
          std::vector<std::string>{"ranks 0-2 have waited for 60 s with 'grad' for rank 3, which "
                                   "has not submitted it"});
    CHECK(first.next == kStart + seconds(120));
    CHECK(inspector.look(kStart + seconds(119), all).reports.empty());
    CHECK(inspector.look(kStart + seconds(120), all).reports.size() == 1);
    CHECK(inspector.look(kStart + seconds(121), all).next == kStart + seconds(240));
}

TEST_CASE("tensors that wait for the same ranks are one line; others have their own") {
    StallInspector inspector({.warning = seconds(60)});
    std::vector<Waiting> all;
    for (int index = 0; index < 160; ++index) {
        all.push_back(tensor("g" + std::to_string(index), seconds(index / 80)));
    }
    auto other = tensor("loss");
    other.process_set = 2;
    other.waiting = {1};
    other.missing = {0, 2, 3};
    all.push_back(other);

    const auto findings = inspector.look(kStart + seconds(60), all);

    CHECK(texts(findings) ==
          std::vector<std::string>{
              "ranks 0-2 have waited for 60 s with 'g0', 'g1', 'g2' and 157 more for rank 3, "
              "which has not submitted them",
              "rank 1 has waited for 60 s with 'loss' in process set 2 for ranks 0,2-3, which "
              "have not submitted it"});
    CHECK(inspector.look(kStart + seconds(62), all).reports.empty());
}

TEST_CASE("a tensor of the same name that waits again is a stall of its own") {
    StallInspector inspector({.warning = seconds(60)});
    CHECK(inspector.look(kStart + seconds(60), std::vector{tensor("grad")}).reports.size() == 1);
    CHECK(inspector.look(kStart + seconds(61), {}).next == TimePoint::max());

    const std::vector<Waiting> again{tensor("grad", seconds(100))};
    CHECK(inspector.look(kStart + seconds(159), again).reports.empty());
    CHECK(inspector.look(kStart + seconds(160), again).reports.size() == 1);
}

TEST_CASE("a stall that lasts for the shutdown time ends the job") {
    StallInspector inspector({.warning = seconds(1), .shutdown = milliseconds(2500)});
    const std::vector<Waiting> all{tensor("grad")};
    CHECK_FALSE(inspector.look(kStart + seconds(2), all).reports.front().ends_job);
    const auto next = inspector.look(kStart + milliseconds(2400), all).next;
    CHECK(next == kStart + milliseconds(2500));

    const auto findings = inspector.look(next, all);

    REQUIRE(findings.reports.size() == 1);
    CHECK(findings.reports.front().ends_job);
    CHECK(findings.reports.front().missing == std::vector{3});
    CHECK(findings.reports.front().text ==
          "ranks 0-2 have waited for 2.5 s with 'grad' for rank 3, which has not submitted it");
}

TEST_CASE("a collective in flight names the members that have not begun it, if they are known") {
    StallInspector inspector({.warning = seconds(60)});
    auto known = tensor("a");
    known.stage = Waiting::Stage::flight;
    auto unknown = known;
    unknown.name = "b";
    unknown.waiting = {0};
    unknown.missing.clear();

    CHECK(texts(inspector.look(kStart + seconds(60), std::vector{known, unknown})) ==
          std::vector<std::string>{
              "rank 0 has waited for 60 s for the end of 'b', which other members may not have "
              "begun",
              "ranks 0-2 have waited for 60 s for the end of 'a', which rank 3 has not begun"});
}

TEST_CASE("without a warning time nothing is looked for") {
    StallInspector inspector({});
    const auto findings = inspector.look(kStart + seconds(9999), std::vector{tensor("grad")});
    CHECK(findings.reports.empty());
    CHECK(findings.next == TimePoint::max());
}

TEST_CASE("the coordinator knows who waits, for whom and since when") {
    Coordinator coordinator(3, {.capacity = 8, .ids = 16, .quarantine = 2});
    (void)coordinator.announce(0, announcement("a"), kStart);
    auto late = announcement("a");
    late.waited = seconds(5);
    (void)coordinator.announce(2, late, kStart + seconds(1));

    const auto waiting = coordinator.waiting();

    REQUIRE(waiting.size() == 1);
    CHECK(waiting.front().name == "a");
    CHECK(waiting.front().waiting == std::vector{0, 2});
    CHECK(waiting.front().missing == std::vector{1});
    CHECK(waiting.front().since == kStart - seconds(4));
    CHECK(coordinator.has_waiting());
    (void)coordinator.announce(1, announcement("a"), kStart);
    CHECK_FALSE(coordinator.has_waiting());
}

TEST_CASE("a rank that asks for names ends the group's id and announces nothing") {
    Coordinator coordinator(2, {.capacity = 8, .ids = 16, .quarantine = 2});
    (void)coordinator.announce(0, announcement("a"));
    const auto agreed = coordinator.announce(1, announcement("a"));
    REQUIRE(agreed->size() == 1);
    const auto id = std::get<Decision>(agreed->front()).id;
    auto asks = announcement("a");
    asks.asks_for_names = true;

    const auto first = coordinator.announce(1, asks);
    const auto second = coordinator.announce(0, asks);

    REQUIRE(first->size() == 1);
    CHECK(std::get<Invalidation>(first->front()).id == id);
    CHECK(second->empty());
    CHECK(coordinator.waiting().empty());
}
