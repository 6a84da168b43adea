// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/make_result.hpp"

#include <catch2/catch.hpp>

namespace hvd::launch {
namespace {

/// A job in which every rank there was has succeeded.
JobResult result_with(std::vector<HostSurvivor> survivors, std::vector<UnsweptHost> unswept) {
    const LaunchPlan plan;
    const JobRecord record;
    const std::vector<StderrTail> tails;
    return make_result({.plan = plan,
                        .record = record,
                        .tails = tails,
                        .hosts = {},
                        .survivors = std::move(survivors),
                        .unswept = std::move(unswept),
                        .warnings = {}});
}

TEST_CASE("a job that has left nothing is a success") {
    CHECK(result_with({}, {}).exit_code == 0);
}

TEST_CASE("ranks that succeed make no success where something of the job is left") {
    const auto stuck =
        result_with({{.host = "b", .process = {.pid = 7, .state = "D", .wchan = "nfs"}}}, {});
    CHECK(stuck.exit_code == 125);
    CHECK(stuck.sentence ==
          "the ranks have succeeded, but processes of the job are left that could not be killed");

    const auto unknown = result_with({}, {{.host = "b", .why = "it did not answer within 3 s"}});
    CHECK(unknown.exit_code == 125);
    CHECK(unknown.sentence == "the ranks have succeeded, but processes of the job may be left");
}

}  // namespace
}  // namespace hvd::launch
