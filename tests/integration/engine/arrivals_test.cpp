// SPDX-License-Identifier: Apache-2.0
//
// Which rank comes last, as each rank knows it.
#include "tests/integration/engine/engine_rank.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

using hvd::rt::ArrivalsRow;
using hvd::rt::Operation;
using hvd::rt::Request;
using hvd::test::add_set;
using hvd::test::allreduce;
using hvd::test::EngineRank;
using hvd::test::run_thread_ranks;
using hvd::test::thread_world;

namespace {

constexpr std::chrono::milliseconds kLate{30};

using World = std::vector<std::unique_ptr<EngineRank>>;

/// The row of a rank that came last in a set, or one that says never.
ArrivalsRow row_of(EngineRank& self, int set, int last_rank) {
    const auto rows = self.engine->metrics().arrivals;
    const auto found = std::ranges::find_if(rows, [&](const ArrivalsRow& row) {
        return row.process_set == set && row.rank == last_rank;
    });
    return found == rows.end() ? ArrivalsRow{.process_set = set, .rank = last_rank} : *found;
}

/// Two operations of a set: of a name that is always the same, and of a new one.
std::vector<Request> both(int set, int round, std::array<float, 2>& data) {
    std::vector<Request> requests{allreduce("same", {data.data(), 1}),
                                  allreduce("new " + std::to_string(round), {data.data() + 1, 1})};
    for (auto& request : requests) {
        request.process_set = set;
    }
    return requests;
}

/// The members run them; `last` submits once the others have waited for a while.
void run_late(World& world, int set, int round, std::vector<std::size_t> members) {
    std::vector<std::array<float, 2>> data(members.size());
    std::vector<std::vector<Operation*>> open(members.size());
    const std::size_t last = members.size() - 1;
    for (std::size_t index = 0; index < last; ++index) {
        open[index] = announce(*world[members[index]], both(set, round, data[index]));
    }
    std::this_thread::sleep_for(kLate);
    open[last] = announce(*world[members[last]], both(set, round, data[last]));
    for (std::size_t index = 0; index < members.size(); ++index) {
        world[members[index]]->finish(open[index]);
    }
}

}  // namespace

TEST_CASE("each rank knows how often another one came last, and how long it has waited then") {
    constexpr int kRounds = 4;
    auto world = thread_world(3);
    int set = 0;
    CHECK(run_thread_ranks(3, [&](int rank) {
              const int made = add_set(*world[static_cast<std::size_t>(rank)], {1, 2});
              if (rank == 0) {
                  set = made;
              }
              return 0;
          }) == "");
    REQUIRE(set != 0);
    run_late(world, 0, -1, {0, 1, 2});  // agrees on the name that stays

    const auto before = row_of(*world[0], 0, 2);
    for (int round = 0; round < kRounds; ++round) {
        run_late(world, 0, round, {0, 1, 2});
    }
    run_late(world, set, 0, {2, 1});

    const auto after = row_of(*world[0], 0, 2);
    CHECK(after.times - before.times == std::uint64_t{2} * kRounds);
    CHECK(after.wait - before.wait >= 2 * kRounds * kLate);
    for (const std::size_t rank : {0U, 1U, 2U}) {
        CAPTURE(rank);
        CHECK(row_of(*world[rank], 0, 2).times == after.times);
        CHECK(row_of(*world[rank], 0, 0).times == 0);
        CHECK(row_of(*world[rank], 0, 1).times == 0);
        CHECK(row_of(*world[rank], set, 1).times == (rank == 0 ? 0 : 2));
        CHECK(row_of(*world[rank], set, 2).times == 0);
    }
    CHECK(row_of(*world[2], set, 1).wait >= 2 * kLate);
    CHECK(row_of(*world[2], 0, 2).wait < after.wait);
}
