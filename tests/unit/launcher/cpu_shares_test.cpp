// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/cpu_shares.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

using hvd::launch::share_cpus;
using Shares = std::vector<std::vector<int>>;

namespace {

std::vector<int> range(int first, int last) {
    std::vector<int> cpus(static_cast<std::size_t>(last - first + 1));
    std::iota(cpus.begin(), cpus.end(), first);
    return cpus;
}

}  // namespace

TEST_CASE("CPUs are divided into even shares of neighbours") {
    CHECK(share_cpus(range(0, 3), Shares(2)) == Shares{{0, 1}, {2, 3}});
    CHECK(share_cpus(range(0, 3), Shares(4)) == Shares{{0}, {1}, {2}, {3}});
    CHECK(share_cpus(range(0, 4), Shares(2)) == Shares{{0, 1}, {2, 3, 4}});
    CHECK(share_cpus(std::vector{2, 5, 9}, Shares(1)) == Shares{{2, 5, 9}});
}

TEST_CASE("with more ranks than CPUs nobody has a share") {
    CHECK(share_cpus(range(0, 1), Shares(3)) == Shares(3));
    CHECK(share_cpus({}, Shares(1)) == Shares(1));
    CHECK(share_cpus(range(0, 1), {}).empty());
}

TEST_CASE("a share lies near the rank's GPU") {
    // Two sockets; the GPUs of ranks 0 and 2 are at the second.
    const Shares near{range(4, 7), range(0, 3), range(4, 7), range(0, 3)};

    CHECK(share_cpus(range(0, 7), near) == Shares{{4, 5}, {0, 1}, {6, 7}, {2, 3}});
}

TEST_CASE("a place that is too small is shared evenly, and the rest comes from elsewhere") {
    const Shares near{range(0, 1), range(0, 1)};

    CHECK(share_cpus(range(0, 5), near) == Shares{{0, 2, 3}, {1, 4, 5}});
}

TEST_CASE("CPUs near a GPU that we may not use are nobody's") {
    const Shares near{range(8, 15), range(0, 3)};

    CHECK(share_cpus(range(0, 3), near) == Shares{{2, 3}, {0, 1}});
}

TEST_CASE("whatever is near what, shares are even and no CPU is given twice") {
    const int cpus = GENERATE(1, 2, 7, 16);
    const int ranks = GENERATE(1, 2, 3, 7);
    const int pattern = GENERATE(0, 1, 2, 3);
    CAPTURE(cpus, ranks, pattern);
    Shares near;
    for (int rank = 0; rank < ranks; ++rank) {
        near.push_back(pattern == 0   ? std::vector<int>()
                       : pattern == 1 ? range(0, cpus / 2)
                       : pattern == 2 ? range(rank, rank + 2)
                                      : range(0, rank % 2 == 0 ? cpus : 1));
    }

    const auto shares = share_cpus(range(0, cpus - 1), near);

    REQUIRE(shares.size() == static_cast<std::size_t>(ranks));
    std::vector<int> all;
    for (const auto& share : shares) {
        all.insert(all.end(), share.begin(), share.end());
        CHECK(std::ranges::is_sorted(share));
        if (ranks <= cpus) {
            CHECK(share.size() >= static_cast<std::size_t>(cpus / ranks));
            CHECK(share.size() <= static_cast<std::size_t>(cpus / ranks + 1));
        }
    }
    std::ranges::sort(all);
    CHECK(all == (ranks <= cpus ? range(0, cpus - 1) : std::vector<int>()));
}
