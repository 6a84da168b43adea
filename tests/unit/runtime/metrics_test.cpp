// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/metrics.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <vector>

using hvd::coll::Op;
using hvd::coll::ProcessSet;
using hvd::rt::ArrivalsRow;
using hvd::rt::Metrics;
using hvd::rt::SetMetrics;
using namespace std::chrono_literals;

TEST_CASE("waits count for the rank that came last, where it is known") {
    const ProcessSet set{.id = 3, .ranks = {1, 4, 6}, .place = 0, .hosts = {0, 0, 0}};
    SetMetrics metrics;
    for (const auto op : {Op::allreduce, Op::barrier, Op::broadcast}) {
        metrics.of(op).count(1, 8);
    }
    metrics.count_wait(Op::allreduce, set, 6, 5ns);
    metrics.count_wait(Op::allreduce, set, 1, 1ns);
    metrics.count_wait(Op::allreduce, set, 6, 7ns);
    metrics.count_wait(Op::allreduce, set, -1, 2ns);
    metrics.count_wait(Op::barrier, set, 4, 9ns);
    metrics.count_wait(Op::broadcast, set, 5, 4ns);  // no member: it has joined, say
    metrics.count_wait(Op::alltoall, set, 4, 3ns);   // agreed on, and not started

    Metrics list;
    metrics.list(set, list);

    const auto row = [](Op op, int rank, std::uint64_t times, std::chrono::nanoseconds wait) {
        return ArrivalsRow{.process_set = 3, .op = op, .rank = rank, .times = times, .wait = wait};
    };
    CHECK(list.arrivals == std::vector{row(Op::allreduce, 1, 1, 1ns),
                                       row(Op::allreduce, 6, 2, 12ns),
                                       row(Op::barrier, 4, 1, 9ns)});
    REQUIRE(list.operations.size() == 3);
    CHECK(list.operations.front().metrics.waits == 4);
    CHECK(list.operations.front().metrics.wait == 15ns);
}
