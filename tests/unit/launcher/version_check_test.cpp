// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/version_check.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using hvd::launch::HostPlan;
using hvd::launch::VersionCheck;
using Sentences = std::vector<std::string>;

namespace {

/// Each with a rank, but for those without a name.
std::vector<HostPlan> hosts(const std::vector<std::string>& names) {
    std::vector<HostPlan> plans;
    for (const auto& name : names) {
        HostPlan plan;
        plan.host = name;
        plan.ranks.resize(name.empty() ? 0 : 1);
        plans.push_back(std::move(plan));
    }
    return plans;
}

}  // namespace

TEST_CASE("hosts with equal versions give no message") {
    VersionCheck versions(hosts({"a", "b"}));

    CHECK(versions.add(0, "Python 3.11.2\ntorch 2.13.0").empty());
    CHECK(versions.add(1, "Python 3.11.2\ntorch 2.13.0").empty());
}

TEST_CASE("different versions are told with their hosts, once, when every host has told") {
    VersionCheck versions(hosts({"a", "b", "c", ""}));

    CHECK(versions.add(0, "Python 3.11.2\nC library 2.36").empty());
    CHECK(versions.add(1, "Python 3.12.1\nC library 2.36").empty());
    CHECK(versions.add(2, "Python 3.11.2\nC library 2.31") ==
          Sentences{"hosts differ: C library is 2.36 on a, b, but 2.31 on c",
                    "hosts differ: Python is 3.11.2 on a, c, but 3.12.1 on b"});
    CHECK(versions.add(1, "Python 3.9.1").empty());
}

TEST_CASE("what only some hosts have loaded is no difference") {
    VersionCheck versions(hosts({"a", "b"}));

    CHECK(versions.add(0, "torch 2.13.0\ntensorflow 2.21.0").empty());
    CHECK(versions.add(1, "torch 2.13.0").empty());
}

TEST_CASE("of many hosts with one version the first few are named") {
    VersionCheck versions(hosts({"a", "b", "c", "d", "e", "f", "g"}));
    for (std::size_t host = 0; host < 6; ++host) {
        CHECK(versions.add(host, "torch 1").empty());
    }

    CHECK(versions.add(6, "torch 2") ==
          Sentences{"hosts differ: torch is 1 on a, b, c, d and 2 more, but 2 on g"});
}

TEST_CASE("a report that is no list of versions is passed over") {
    VersionCheck versions(hosts({"a", "b"}));

    CHECK(versions.add(0, "\n\nnonsense\n").empty());
    CHECK(versions.add(7, "torch 1").empty());
    CHECK(versions.add(1, std::string(100'000, '\n') + "torch 1").empty());
}
