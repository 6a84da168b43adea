// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/io/report_gate.hpp"

#include <catch2/catch.hpp>

#include <vector>

namespace hvd::launch::agent {
namespace {

using namespace std::chrono_literals;
using coll::ReportKind;
using Lineage = std::vector<Process>;

constexpr ReportGate::TimePoint kStart{1000s};
constexpr int kRank = 3;

Process process(pid_t pid, std::uint64_t start_time = 1) {
    return {.pid = pid, .parent = 0, .session = 0, .state = 'S', .start_time = start_time};
}

const Process kShell = process(10);  // was started as the rank
const Process kProgram = process(11);
const Process kChild = process(12);

wire::RankReport report(const char* text, ReportKind kind = ReportKind::exception) {
    return {.rank = kRank, .time_ns = 5, .report = {.kind = kind, .peer = -1, .text = text}};
}

std::vector<wire::RankReport> due(ReportGate& gate, ReportGate::TimePoint now, bool lives) {
    return gate.take_due(now, [lives](const Process&) { return lives; });
}

constexpr auto kTeardown = kStart + ReportGate::kTeardownTime;
constexpr auto kLate = kStart + ReportGate::kHandledAfter;

}  // namespace

TEST_CASE("what the process says that was started as the rank is told at once") {
    ReportGate gate;
    gate.welcome(kRank, Lineage{kShell});

    CHECK(gate.admits(report("boom"), Lineage{kShell}, kStart));
    CHECK_FALSE(gate.deadline());
    CHECK(gate.rank_ended(kRank).empty());
}

TEST_CASE("an exception below a wrapper is told with the wrapper's end, other reports at once") {
    ReportGate gate;
    const Lineage program{kProgram, kShell};
    gate.welcome(kRank, program);

    CHECK(gate.admits(report("rank 1 is lost", ReportKind::peer_lost), program, kStart));
    CHECK_FALSE(gate.admits(report("boom"), program, kStart));
    CHECK(gate.rank_ended(kRank + 1).empty());
    CHECK(gate.rank_ended(kRank) == std::vector{report("boom")});
    CHECK(gate.rank_ended(kRank).empty());
}

TEST_CASE("nothing is told of a child of the rank, below a wrapper too") {
    const auto kind = GENERATE(ReportKind::exception, ReportKind::peer_lost, ReportKind::stalled);
    const auto wrapper = GENERATE(Lineage{}, Lineage{kShell});
    Lineage program{kProgram};
    program.insert(program.end(), wrapper.begin(), wrapper.end());
    Lineage child{kChild, process(13)};
    child.insert(child.end(), program.begin(), program.end());
    ReportGate gate;
    gate.welcome(kRank, program);
    gate.welcome(kRank, child);

    CHECK_FALSE(gate.admits(report("boom", kind), child, kStart));
    CHECK(gate.rank_ended(kRank).empty());
}

TEST_CASE("a child that failed before its parent joined the job was a child already") {
    ReportGate gate;
    gate.welcome(kRank, Lineage{kChild, kProgram});
    CHECK_FALSE(gate.admits(report("boom"), Lineage{kChild, kProgram}, kStart));

    gate.welcome(kRank, Lineage{kProgram});

    CHECK_FALSE(gate.deadline());
    CHECK(gate.rank_ended(kRank).empty());
}

TEST_CASE("a process with the number of one that has ended is another") {
    ReportGate gate;
    gate.welcome(kRank, Lineage{kProgram, kShell});
    const Lineage next{kChild, process(kProgram.pid, 2), kShell};
    gate.welcome(kRank, next);

    CHECK(gate.admits(report("rank 1 is lost", ReportKind::peer_lost), next, kStart));
}

TEST_CASE("a program that hangs after its exception is told of without the end of its wrapper") {
    ReportGate gate;
    CHECK_FALSE(gate.admits(report("boom"), Lineage{kProgram, kShell}, kStart));

    CHECK(gate.deadline() == kTeardown);
    CHECK(due(gate, kTeardown - 1ms, true).empty());
    CHECK(due(gate, kTeardown, true) == std::vector{report("boom")});
    CHECK_FALSE(gate.deadline());
    CHECK(gate.rank_ended(kRank).empty());
}

TEST_CASE("a wrapper that goes on for long has handled the exception of its program") {
    ReportGate gate;
    CHECK_FALSE(gate.admits(report("boom"), Lineage{kProgram, kShell}, kStart));

    CHECK(due(gate, kTeardown, false).empty());
    SECTION("not as long: it is the reason") {
        CHECK(due(gate, kLate - 1ms, false).empty());
        CHECK(gate.rank_ended(kRank) == std::vector{report("boom")});
    }
    SECTION("longer") {
        CHECK(gate.deadline() == kLate);
        CHECK(due(gate, kLate, true).empty());
        CHECK_FALSE(gate.deadline());
        CHECK(gate.rank_ended(kRank).empty());
    }
}

TEST_CASE("of many failures below a wrapper the last are kept") {
    ReportGate gate;
    constexpr int kMany = 1000;
    for (int pid = 0; pid < kMany; ++pid) {
        const Lineage program{process(100 + pid), kShell};
        gate.welcome(kRank, program);
        CHECK_FALSE(gate.admits(report("boom"), program, kStart));
    }

    CHECK(gate.rank_ended(kRank).size() == 64);
}

}  // namespace hvd::launch::agent
