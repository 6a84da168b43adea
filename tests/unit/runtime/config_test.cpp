// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/config.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>

using hvd::Environment;
using hvd::rt::config_variables;
using hvd::rt::EngineConfig;
using hvd::rt::idle_variables;
using hvd::rt::read_config;
using hvd::rt::unknown_variables;

TEST_CASE("every variable sets its field") {
    const auto config = read_config({{"HOROVOD_FUSION_THRESHOLD", "0"},
                                     {"HOROVOD_CYCLE_TIME", "2.5"},
                                     {"HOROVOD_CACHE_CAPACITY", "64"},
                                     {"HOROVOD_LOG_LEVEL", "DEBUG"},
                                     {"HOROVOD_LOG_HIDE_TIME", "1"},
                                     {"HOROVOD_START_TIMEOUT", "7"},
                                     {"HOROVOD_CPU_OPERATIONS", "tcp"},
                                     {"HOROVOD_GPU_BUFFER_LIMIT", "4096"},
                                     {"HOROVOD_DETERMINISTIC", "1"},
                                     {"HOROVOD_HIERARCHICAL_ALLREDUCE", "1"},
                                     {"HOROVOD_ADASUM_HIERARCHICAL", "1"},
                                     {"HOROVOD_AVERAGE_OVER", "contributing"},
                                     {"HOROVOD_NETWORK_INTERFACES", "eth*"},
                                     {"HOROVOD_PORT_RANGE", "5000-5009"}});

    REQUIRE(config);
    CHECK(*config == EngineConfig{.fusion_bytes = 0,
                                  .cycle_time = std::chrono::microseconds(2500),
                                  .cache_capacity = 64,
                                  .log_level = hvd::LogLevel::debug,
                                  .log_time = false,
                                  .start_timeout = std::chrono::seconds(7),
                                  .cpu_operations = hvd::rt::CpuOperations::tcp,
                                  .gpu_buffer_limit = 4096,
                                  .is_deterministic = true,
                                  .is_hierarchical = true,
                                  .adasum_across_hosts = true,
                                  .averages_over_contributing = true,
                                  .interfaces = {.text = "eth*", .names = {"eth*"}},
                                  .ports = {.first = 5000, .last = 5009}});
}

TEST_CASE("unset and empty variables leave the defaults") {
    CHECK(*read_config({}) == EngineConfig{});
    CHECK(*read_config({{"HOROVOD_CYCLE_TIME", ""}}) == EngineConfig{});
    CHECK(*read_config({{"HOROVOD_CPU_OPERATIONS", "gloo"}}) == EngineConfig{});
    CHECK(*read_config({{"HOROVOD_AVERAGE_OVER", "all"}}) == EngineConfig{});
}

TEST_CASE("a wrong value is an error that names the variable and the value") {
    for (const auto& variable : config_variables()) {
        const std::string name(variable.name);
        if (name == "HOROVOD_NETWORK_INTERFACES" || name == "HOROVOD_TIMELINE" ||
            name == "HOROVOD_TIMELINE_ALL" || name == "HOROVOD_NCCL_LIBRARY") {
            continue;  // an interface, or a file, may have any name
        }
        CAPTURE(name);

        const auto config = read_config({{name, "nonsense"}});

        REQUIRE_FALSE(config);
        CHECK(config.error().code == hvd::Errc::invalid_argument);
        CHECK(config.error().message.starts_with(name + "='nonsense': "));
    }
    CHECK_FALSE(read_config({{"HOROVOD_FUSION_THRESHOLD", "-1"}}));
    CHECK_FALSE(read_config({{"HOROVOD_CYCLE_TIME", "nan"}}));
    CHECK_FALSE(read_config({{"HOROVOD_START_TIMEOUT", "0"}}));
    CHECK_FALSE(read_config({{"HOROVOD_NETWORK_INTERFACES", "10.0.0.0/33"}}));
    CHECK_FALSE(read_config({{"HOROVOD_PORT_RANGE", "9-8"}}));
}

TEST_CASE("unknown variables are named with the nearest known one; the original's are not") {
    CHECK(unknown_variables({{"HOROVOD_FUSION_TRESHOLD", "1"}}) ==
          std::vector<std::string>{"the variable HOROVOD_FUSION_TRESHOLD is unknown and has no "
                                   "effect: did you mean HOROVOD_FUSION_THRESHOLD?"});
    CHECK(unknown_variables({{"HOROVOD_RANK", "0"},
                             {"HOROVOD_TIMELINE", "f"},
                             {"HOROVOD_WITH_PYTORCH", "1"},
                             {"PATH", "/bin"}})
              .empty());
}

TEST_CASE("the autotuner, which does not exist, is told of unless horovodrun has told") {
    CHECK(idle_variables({{"HOROVOD_AUTOTUNE", "1"}}) ==
          std::vector<std::string>{"HOROVOD_AUTOTUNE has no effect in this version"});
    CHECK(idle_variables({{"HOROVOD_AUTOTUNE", "0"}}).empty());
    CHECK(idle_variables({{"HOROVOD_AUTOTUNE", "1"}, {"HOROVOD_AGENT_SOCKET", "s"}}).empty());
    CHECK(idle_variables({}).empty());
}

TEST_CASE("a shutdown time that is not after the warning is left out; 0 and a switch turn it off") {
    using std::chrono::seconds;
    const auto limits = [](const Environment& environment) {
        return hvd::rt::stall_limits(*read_config(environment));
    };
    CHECK(limits({}) == hvd::rt::StallLimits{.warning = seconds(60)});
    CHECK(limits({{"HOROVOD_STALL_CHECK_TIME_SECONDS", "5"},
                  {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "9"}}) ==
          hvd::rt::StallLimits{.warning = seconds(5), .shutdown = seconds(9)});
    CHECK(limits({{"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "9"}}) ==
          hvd::rt::StallLimits{.warning = seconds(60)});
    CHECK(limits({{"HOROVOD_STALL_CHECK_DISABLE", "1"}}) == hvd::rt::StallLimits{});
    CHECK(limits({{"HOROVOD_STALL_CHECK_TIME_SECONDS", "0"}}) == hvd::rt::StallLimits{});
}

TEST_CASE("what horovodrun reads or sets itself is known where its ranks find it") {
    for (const auto* name : {"HOROVOD_MPIRUN", "HOROVOD_MPI_JOB", "HOROVOD_JOIN_TOKEN_FILE",
                             "HOROVOD_AGENT_SOCKET", "HOROVOD_TASK_OF", "HOROVOD_START_TIMEOUT"}) {
        CHECK(unknown_variables({{name, "x"}}).empty());
    }
}
