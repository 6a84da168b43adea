// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/shared_lease.hpp"

#include <catch2/catch.hpp>

namespace hvd::launch::agent {
namespace {

using namespace std::chrono_literals;

constexpr SharedLease::TimePoint kStart{1000s};
constexpr auto kLimit = kStart + HungAgent::kAgentsTime;

TEST_CASE("a board without a lease shows none, and one that was lifted is gone") {
    SharedLease board;

    CHECK(board.end() == std::nullopt);
    board.post(kStart);
    CHECK(board.end() == kStart);
    board.post(std::nullopt);
    CHECK(board.end() == std::nullopt);
}

TEST_CASE("without a lease an agent may hang for ever") {
    HungAgent hung;

    CHECK_FALSE(hung.is_certain(std::nullopt, kStart + 100h));
    CHECK(hung.next_look() == std::nullopt);
}

TEST_CASE("an agent that does nothing about the end of its lease hangs") {
    HungAgent hung;

    CHECK_FALSE(hung.is_certain(kStart, kStart - 10s));
    CHECK(hung.next_look() == kLimit);
    CHECK_FALSE(hung.is_certain(kStart, kLimit));
    CHECK(hung.next_look() == kLimit + HungAgent::kSecondLook);
    CHECK_FALSE(hung.is_certain(kStart, kLimit + 10ms));  // woken by something else
    CHECK(hung.is_certain(kStart, kLimit + HungAgent::kSecondLook));
}

TEST_CASE("an agent that goes on after a pause of the machine does not hang") {
    HungAgent hung;

    CHECK_FALSE(hung.is_certain(kStart, kStart + 1h));  // the guard was the first to go on
    CHECK_FALSE(hung.is_certain(kStart + 2h, kStart + 1h + HungAgent::kSecondLook));
    CHECK(hung.next_look() == kLimit + 2h);
    CHECK_FALSE(hung.is_certain(std::nullopt, kLimit + 3h));
    CHECK_FALSE(hung.is_certain(kStart, kLimit + 4h));  // suspicion begins again
}

}  // namespace
}  // namespace hvd::launch::agent
