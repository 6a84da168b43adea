// SPDX-License-Identifier: Apache-2.0
#include "launcher/fleet/heartbeat.hpp"

#include "launcher/agent/lifecycle/lease.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <vector>

using namespace std::chrono_literals;
using hvd::launch::ClockOffset;
using hvd::launch::Heartbeat;
using hvd::launch::agent::Lease;

namespace {

using Hosts = std::vector<std::size_t>;

using Clock = Heartbeat::Clock;

const Heartbeat::TimePoint kStart{100s};

/// Looks whenever it is wanted, until `end`, and collects what was due.
Heartbeat::Due run_until(Heartbeat& heartbeat, Heartbeat::TimePoint end) {
    Heartbeat::Due all;
    for (auto next = heartbeat.next(); next && *next <= end; next = heartbeat.next()) {
        const auto due = heartbeat.due(*next);
        all.ask.insert(all.ask.end(), due.ask.begin(), due.ask.end());
        all.silent.insert(all.silent.end(), due.silent.begin(), due.silent.end());
        all.lost.insert(all.lost.end(), due.lost.begin(), due.lost.end());
    }
    return all;
}

}  // namespace

TEST_CASE("a silent host is spoken of once after 5 s and lost after the lease") {
    Heartbeat heartbeat(30s, 2);
    heartbeat.add(1, Clock::its_own, kStart);

    CHECK(run_until(heartbeat, kStart + 4999ms).silent.empty());
    CHECK(run_until(heartbeat, kStart + 5s).silent == Hosts{1});
    const auto later = run_until(heartbeat, kStart + 29'999ms);
    CHECK(later.silent.empty());
    CHECK(later.lost.empty());
    CHECK(run_until(heartbeat, kStart + 30s).lost == Hosts{1});
    CHECK_FALSE(heartbeat.next());
}

TEST_CASE("this machine is asked too, but not at once, and has our clock") {
    Heartbeat heartbeat(2s, 2);
    heartbeat.add(0, Clock::ours, kStart);
    heartbeat.add(1, Clock::its_own, kStart);

    CHECK(heartbeat.due(kStart).ask.empty());
    CHECK(run_until(heartbeat, kStart + 100ms).ask == Hosts{0});
    CHECK(run_until(heartbeat, kStart + 250ms).ask == Hosts{1});
    CHECK(run_until(heartbeat, kStart + 2s).lost == Hosts{0, 1});
    CHECK_FALSE(heartbeat.has_own_clock(0));
    CHECK(heartbeat.has_own_clock(1));
}

TEST_CASE("any word keeps a host") {
    Heartbeat heartbeat(2s, 1);
    heartbeat.add(0, Clock::its_own, kStart);

    for (auto now = kStart; now < kStart + 60s; now += 1900ms) {
        CHECK(run_until(heartbeat, now).lost.empty());
        heartbeat.heard(0, now);
    }
    CHECK(run_until(heartbeat, kStart + 90s).lost == Hosts{0});
}

TEST_CASE("hosts are asked soon and every second, oftener under a short lease") {
    Heartbeat slow(30s, 1);
    slow.add(0, Clock::its_own, kStart);
    Heartbeat quick(2s, 1);
    quick.add(0, Clock::its_own, kStart);

    CHECK(run_until(slow, kStart + 1200ms).ask.size() == 1);
    CHECK(run_until(slow, kStart + 4s).ask.size() == 3);
    CHECK(run_until(quick, kStart + 1s).ask.size() >= 4);
}

TEST_CASE("hosts are asked oftener for a while once ranks run, but not this machine") {
    Heartbeat heartbeat(30s, 2);
    heartbeat.add(0, Clock::ours, kStart);
    heartbeat.add(1, Clock::its_own, kStart);
    CHECK(run_until(heartbeat, kStart + 500ms).ask == Hosts{0, 1});

    CHECK(heartbeat.hurry(kStart + 500ms) == Hosts{1});

    CHECK(run_until(heartbeat, kStart + 850ms).ask == Hosts{1, 1, 1});
    CHECK(run_until(heartbeat, kStart + 1500ms).ask == Hosts{0});
    CHECK(run_until(heartbeat, kStart + 1900ms).ask == Hosts{1});
}

TEST_CASE("without a lease nobody is given up") {
    Heartbeat heartbeat(0s, 1);
    heartbeat.add(0, Clock::its_own, kStart);

    CHECK(run_until(heartbeat, kStart + 1h).lost.empty());
}

TEST_CASE("a pause suspends the lease, and the end of it begins a new one") {
    Heartbeat heartbeat(2s, 1);
    heartbeat.add(0, Clock::its_own, kStart);
    (void)run_until(heartbeat, kStart + 1s);

    heartbeat.pause();
    CHECK_FALSE(heartbeat.next());
    CHECK(heartbeat.due(kStart + 1h).lost.empty());
    heartbeat.resume(kStart + 1h);

    CHECK(run_until(heartbeat, kStart + 1h + 1999ms).lost.empty());
    CHECK(run_until(heartbeat, kStart + 1h + 2s).lost == Hosts{0});
}

TEST_CASE("when it was us who were stopped, nobody is lost before being heard again") {
    Heartbeat heartbeat(2s, 1);
    heartbeat.add(0, Clock::its_own, kStart);
    (void)run_until(heartbeat, kStart + 1s);

    CHECK(heartbeat.due(kStart + 10s).lost.empty());
    CHECK(run_until(heartbeat, kStart + 11'999ms).lost.empty());
    CHECK(run_until(heartbeat, kStart + 12s).lost == Hosts{0});
}

TEST_CASE("the clocks' difference comes from the exchange with the shortest way") {
    ClockOffset offset;
    CHECK_FALSE(offset.best());
    CHECK(offset.to_our_clock(5000, 70) == 70);

    // 1000 ahead, 10 there and 10 back; then 10 there and 90 back.
    offset.add({.asked_ns = 100, .heard_ns = 1110, .answered_ns = 1120}, 130);
    offset.add({.asked_ns = 200, .heard_ns = 1210, .answered_ns = 1220}, 310);

    CHECK(offset.best() == ClockOffset::Sample{.ahead_ns = 1000, .round_trip_ns = 20});
    CHECK(offset.to_our_clock(1500, 600) == 500);
    CHECK(offset.to_our_clock(1700, 600) == 600);
}

TEST_CASE("old exchanges are forgotten, because clocks drift") {
    ClockOffset offset;
    offset.add({.asked_ns = 0, .heard_ns = 1, .answered_ns = 1}, 2);
    for (std::size_t count = 0; count < ClockOffset::kSamples; ++count) {
        offset.add({.asked_ns = 0, .heard_ns = 505, .answered_ns = 505}, 10);
    }

    CHECK(offset.best()->ahead_ns == 500);
}

TEST_CASE("an agent has no lease before the first question and after an announced pause") {
    Lease lease;
    CHECK_FALSE(lease.end());

    lease.renew(2s, kStart);
    lease.heard(kStart + 1s);
    CHECK(lease.end() == kStart + 3s);
    CHECK_FALSE(lease.is_over(kStart + 2999ms));
    CHECK(lease.is_over(kStart + 3s));

    lease.renew(0s, kStart + 2s);
    CHECK_FALSE(lease.is_over(kStart + 1h));
}
