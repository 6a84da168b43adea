// SPDX-License-Identifier: Apache-2.0
//
// The shared library in worlds that end, on shared memory and over TCP.
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <string>

#include <unistd.h>

using hvd::test::failures;
using hvd::test::run_ranks;
using hvd::test::unique_socket_name;

namespace {

/// Runs a case as `ranks` ranks of torchrun, which needs no server; what failed.
std::string launch(int ranks, bool is_tcp, const char* name) {
    const auto job = unique_socket_name();
    const auto ends = run_ranks(ranks, [&](int rank) {
        const auto set = [](const char* variable, const std::string& value) {
            (void)::setenv(variable, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
        };
        set("RANK", std::to_string(rank));
        set("WORLD_SIZE", std::to_string(ranks));
        set("LOCAL_RANK", std::to_string(rank));
        set("LOCAL_WORLD_SIZE", std::to_string(ranks));
        set("MASTER_ADDR", "127.0.0.1");
        set("MASTER_PORT", "29500");
        set("TORCHELASTIC_RUN_ID", job);
        set("HOROVOD_LOG_LEVEL", "error");
        if (is_tcp) {
            set("HOROVOD_CPU_OPERATIONS", "tcp");
        }
        (void)::execl(HVD_ABI_WORKER, HVD_ABI_WORKER, "rank", name, nullptr);
        return 127;
    });
    return failures(ends);
}

}  // namespace

TEST_CASE("worlds of the C ABI, with process sets, leave a process as they found it") {
    const bool is_tcp = GENERATE(false, true);
    CAPTURE(is_tcp);

    const auto* const name = is_tcp ? "connected_worlds_leave_nothing" : "worlds_leave_nothing";
    CHECK(launch(2, is_tcp, name) == "");
}
