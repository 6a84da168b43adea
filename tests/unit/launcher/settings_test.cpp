// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/settings.hpp"

#include "launcher/cli/options.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <fstream>
#include <string>
#include <vector>

using hvd::Environment;
using hvd::launch::LaunchRequest;
using hvd::launch::parse_command_line;

namespace {

using Words = std::vector<std::string>;

LaunchRequest request(Words flags, const Environment& environment = {}) {
    flags.insert(flags.begin(), {"-np", "1"});
    flags.emplace_back("a");
    const auto parsed = parse_command_line(flags, environment);
    INFO((parsed ? "" : parsed.error().message));
    REQUIRE(parsed);
    return std::get<LaunchRequest>(*parsed);
}

}  // namespace

TEST_CASE("every tunable flag of the original sets its variable") {
    struct Example {
        Words flags;
        Environment expected;
    };
    const auto& example = GENERATE(values<Example>({
        {{"--fusion-threshold-mb", "64"}, {{"HOROVOD_FUSION_THRESHOLD", "67108864"}}},
        {{"--fusion-threshold-mb", "0"}, {{"HOROVOD_FUSION_THRESHOLD", "0"}}},
        {{"--fusion-threshold-mb", "0.5"}, {{"HOROVOD_FUSION_THRESHOLD", "524288"}}},
        {{"--cycle-time-ms", "2.5"}, {{"HOROVOD_CYCLE_TIME", "2.5"}}},
        {{"--cache-capacity", "0"}, {{"HOROVOD_CACHE_CAPACITY", "0"}}},
        {{"--hierarchical-allreduce"}, {{"HOROVOD_HIERARCHICAL_ALLREDUCE", "1"}}},
        {{"--no-hierarchical-allreduce"}, {{"HOROVOD_HIERARCHICAL_ALLREDUCE", "0"}}},
        {{"--hierarchical-allgather"}, {{"HOROVOD_HIERARCHICAL_ALLGATHER", "1"}}},
        {{"--no-hierarchical-allgather"}, {{"HOROVOD_HIERARCHICAL_ALLGATHER", "0"}}},
        {{"--torus-allreduce"}, {{"HOROVOD_TORUS_ALLREDUCE", "1"}}},
        {{"--no-torus-allreduce"}, {{"HOROVOD_TORUS_ALLREDUCE", "0"}}},
        {{"--autotune", "--autotune-log-file", "log", "--autotune-warmup-samples", "1",
          "--autotune-steps-per-sample", "2", "--autotune-bayes-opt-max-samples", "3",
          "--autotune-gaussian-process-noise", "0.25"},
         {{"HOROVOD_AUTOTUNE", "1"},
          {"HOROVOD_AUTOTUNE_LOG", "log"},
          {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "1"},
          {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "2"},
          {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "3"},
          {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.25"}}},
        {{"--no-autotune"}, {}},
        {{"--timeline-filename", "t.json", "--timeline-mark-cycles"},
         {{"HOROVOD_TIMELINE", "t.json"}, {"HOROVOD_TIMELINE_MARK_CYCLES", "1"}}},
        {{"--timeline-filename", "t.json", "--no-timeline-mark-cycles"},
         {{"HOROVOD_TIMELINE", "t.json"}, {"HOROVOD_TIMELINE_MARK_CYCLES", "0"}}},
        {{"--timeline-all", "d", "--timeline-mark-cycles"},
         {{"HOROVOD_TIMELINE_ALL", "d"}, {"HOROVOD_TIMELINE_MARK_CYCLES", "1"}}},
        {{"--no-stall-check"}, {{"HOROVOD_STALL_CHECK_DISABLE", "1"}}},
        {{"--stall-check"}, {{"HOROVOD_STALL_CHECK_DISABLE", "0"}}},
        {{"--stall-check-warning-time-seconds", "5"}, {{"HOROVOD_STALL_CHECK_TIME_SECONDS", "5"}}},
        {{"--stall-check-shutdown-time-seconds", "9"},
         {{"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "9"}}},
        {{"--mpi-threads-disable"}, {{"HOROVOD_MPI_THREADS_DISABLE", "1"}}},
        {{"--no-mpi-threads-disable"}, {{"HOROVOD_MPI_THREADS_DISABLE", "0"}}},
        {{"--num-nccl-streams", "2"}, {{"HOROVOD_NUM_NCCL_STREAMS", "2"}}},
        {{"--thread-affinity", "0,1"}, {{"HOROVOD_THREAD_AFFINITY", "0,1"}}},
        {{"--gloo-timeout-seconds", "60"}, {{"HOROVOD_GLOO_TIMEOUT_SECONDS", "60"}}},
        {{"--tcp"}, {{"NCCL_IB_DISABLE", "1"}}},
        {{"--average-over", "contributing"}, {{"HOROVOD_AVERAGE_OVER", "contributing"}}},
        {{"--log-level", "DEBUG"}, {{"HOROVOD_LOG_LEVEL", "DEBUG"}}},
        {{"--log-level", "debug"}, {{"HOROVOD_LOG_LEVEL", "DEBUG"}}},
        {{"--log-without-timestamp"}, {{"HOROVOD_LOG_HIDE_TIME", "1"}}},
        {{"--log-with-timestamp"}, {{"HOROVOD_LOG_HIDE_TIME", "0"}}},
        {{"--log-hide-timestamp"}, {{"HOROVOD_LOG_HIDE_TIME", "1"}}},
        {{"--no-log-hide-timestamp"}, {{"HOROVOD_LOG_HIDE_TIME", "0"}}},
    }));
    CAPTURE(example.flags);

    CHECK(request(example.flags).environment.tunables == example.expected);
}

TEST_CASE("a value outside its range names flag, value and range") {
    struct Example {
        Words flags;
        std::string expected;
    };
    const auto& example = GENERATE(values<Example>({
        {{"--cycle-time-ms", "-1"}, "'-1' must be a number from 0 to 60000"},
        {{"--network-interfaces", "eth0,10.0.0.0/99"},
         "'10.0.0.0/99' is no network such as 10.0.0.0/8"},
        {{"--cycle-time-ms", "nan"}, "'nan' must be a number from 0 to 60000"},
        {{"--cache-capacity", "1.5"}, "'1.5' must be a whole number from 0 to 2147483647"},
        {{"--autotune-warmup-samples", "-3"}, "'-3' must be a whole number from 0 to 2147483647"},
        {{"--autotune-gaussian-process-noise", "1.1"}, "'1.1' must be a number from 0 to 1"},
        {{"--thread-affinity", "-1"},
         "'-1' must be CPU numbers with commas between them, such as 0,4,8"},
        {{"--average-over", "ranks"}, "'ranks' must be all or contributing"},
        {{"--log-level", "LOUD"}, "'LOUD' must be TRACE, DEBUG, INFO, WARNING, ERROR or FATAL"},
    }));
    CAPTURE(example.flags);

    const auto parsed =
        parse_command_line({"-np", "1", example.flags[0], example.flags[1], "a"}, {});

    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().message ==
          example.flags[0] + " " + example.flags[1] + ": " + example.expected);
}

TEST_CASE("details of autotuner and timeline go out only when these are on") {
    const auto idle = request({"--autotune-log-file", "log", "--timeline-mark-cycles"});

    CHECK(idle.environment.tunables.empty());

    const auto from_environment =
        request({"--autotune-log-file", "log"}, {{"HOROVOD_AUTOTUNE", "1"}});
    CHECK(from_environment.environment.tunables == Environment{{"HOROVOD_AUTOTUNE_LOG", "log"}});
}

TEST_CASE("flag --no-autotune turns off what the environment turns on") {
    CHECK(request({"--no-autotune"}, {{"HOROVOD_AUTOTUNE", "1"}}).environment.tunables ==
          Environment{{"HOROVOD_AUTOTUNE", "0"}});
}

TEST_CASE("an explicit flag wins over the config file wherever it stands") {
    const hvd::test::TempDir folder;
    const auto file = (folder.path() / "c.yaml").string();
    std::ofstream(file) << "params: {cycle_time_ms: 9, cache_capacity: 5}\n"
                           "stall_check: {enabled: true}\n";
    const Environment expected{{"HOROVOD_CYCLE_TIME", "1"},
                               {"HOROVOD_CACHE_CAPACITY", "5"},
                               {"HOROVOD_STALL_CHECK_DISABLE", "1"}};

    CHECK(request({"--cycle-time-ms", "1", "--no-stall-check", "--config-file", file})
              .environment.tunables == expected);
    CHECK(request({"--config-file", file, "--cycle-time-ms", "1", "--no-stall-check"})
              .environment.tunables == expected);
}

TEST_CASE("a config file can ask for --mpi, and --gloo is stronger") {
    const hvd::test::TempDir folder;
    const auto file = (folder.path() / "c.yaml").string();
    std::ofstream(file) << "controller: mpi\n";

    CHECK(request({"--config-file", file}).mpi.is_wanted);
    CHECK(request({"--config-file", file, "--mpi-args=-x A"}).mpi.args == Words{"-x", "A"});
    CHECK_FALSE(request({"--config-file", file, "--gloo"}).mpi.is_wanted);
}

TEST_CASE("what has no effect in this version is named once, whoever asked for it") {
    const hvd::test::TempDir folder;
    const auto file = (folder.path() / "c.yaml").string();
    std::ofstream(file) << "params: {torus_allreduce: true, cycle_time_ms: 3}\n"
                           "timeline: {filename: t.json}\n"
                           "stall_check: {enabled: false}\n";

    const auto asked =
        request({"--autotune", "--timeline-filename", "other.json", "--no-hierarchical-allreduce",
                 "--cache-capacity", "5", "--config-file", file});

    CHECK(asked.report.notes ==
          Words{"'params.torus_allreduce' of the config file, --autotune have no "
                "effect in this version"});
    CHECK(request({"--stall-check", "--stall-check-warning-time-seconds", "5",
                   "--stall-check-shutdown-time-seconds", "9", "--timeline-all", "d"})
              .report.notes.empty());
    CHECK(
        request({"--no-stall-check", "--no-autotune", "--log-level", "info"}).report.notes.empty());
    CHECK(request({}).report.notes.empty());
    CHECK(request({}, {{"HOROVOD_AUTOTUNE", "1"}}).report.notes ==
          Words{"HOROVOD_AUTOTUNE has no effect in this version"});
    CHECK(request({"--autotune"}, {{"HOROVOD_AUTOTUNE", "1"}}).report.notes ==
          Words{"--autotune has no effect in this version"});
    CHECK(request({"--no-autotune"}, {{"HOROVOD_AUTOTUNE", "1"}}).report.notes.empty());
    CHECK(request({}, {{"HOROVOD_AUTOTUNE", "0"}}).report.notes.empty());
}

TEST_CASE("a variable that the runtime would refuse is refused, wherever it is set") {
    struct Example {
        std::string variable;
        std::string value;
        std::string expected;
    };
    const auto& example = GENERATE(values<Example>({
        {"HOROVOD_CYCLE_TIME", "-1", "'-1' must be a number from 0 to 60000"},
        {"HOROVOD_CYCLE_TIME", "60001", "'60001' must be a number from 0 to 60000"},
        {"HOROVOD_FUSION_THRESHOLD", "64MB", "'64MB' must be a whole number of bytes"},
        {"HOROVOD_CACHE_CAPACITY", "many", "'many' must be a whole number from 0 to 2147483647"},
        {"HOROVOD_LOG_LEVEL", "loud", "'loud' must be TRACE, DEBUG, INFO, WARNING, ERROR or FATAL"},
        {"HOROVOD_LOG_HIDE_TIME", "yes", "'yes' must be 0 or 1"},
        {"HOROVOD_AVERAGE_OVER", "some", "'some' must be all or contributing"},
        {"HOROVOD_NETWORK_INTERFACES", "10.0.0.0/99",
         "'10.0.0.0/99' is no network such as 10.0.0.0/8"},
    }));
    const auto setting = example.variable + "=" + example.value;
    CAPTURE(setting);

    for (const auto& parsed :
         {parse_command_line({"-np", "1", "a"}, {{example.variable, example.value}}),
          parse_command_line({"-np", "1", "--env", setting, "a"}, {{example.variable, "0"}})}) {
        REQUIRE_FALSE(parsed);
        CHECK(parsed.error().message == setting + ": " + example.expected);
    }
}

TEST_CASE("a variable that the runtime takes, or does not read, passes") {
    const auto& [variable, value] = GENERATE(table<std::string, std::string>({
        {"HOROVOD_CYCLE_TIME", ""},
        {"HOROVOD_CYCLE_TIME", " 0.5 "},
        {"HOROVOD_FUSION_THRESHOLD", "67108864"},
        {"HOROVOD_LOG_LEVEL", "info"},
        {"HOROVOD_LOG_HIDE_TIME", "1"},
        {"HOROVOD_TORUS_ALLREDUCE", "yes"},
        {"HOROVOD_NETWORK_INTERFACES", "eth0, ib*"},
    }));
    CAPTURE(variable, value);

    CHECK(parse_command_line({"-np", "1", "a"}, {{variable, value}}));
}
