// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/config_file.hpp"

#include <catch2/catch.hpp>

#include <string>

using hvd::Errc;
using hvd::launch::parse_config;
using hvd::launch::read_config_file;
using hvd::launch::SettingValues;

TEST_CASE("every key of the original's schema sets its variable") {
    const auto values = parse_config(R"(
controller: gloo
params:
    fusion_threshold_mb: 32
    cycle_time_ms: 2.5
    cache_capacity: 2048
    hierarchical_allreduce: true
    hierarchical_allgather: no
    torus_allreduce: on
autotune:
    enabled: true
    log_file: horovod_autotune_log.txt
    warmup_samples: 5
    steps_per_sample: 20
    bayes_opt_max_samples: 50
    gaussian_process_noise: 0.9
timeline:
    filename: horovod_timeline.json
    mark_cycles: true
stall_check:
    enabled: false
    warning_time_seconds: 120
    shutdown_time_seconds: 240
library_options:
    mpi_threads_disable: true
    num_nccl_streams: 2
    thread_affinity: 1
    gloo_timeout_seconds: 60
logging:
    level: INFO
    hide_timestamp: true
)",
                                     "c.yaml");

    REQUIRE(values);
    CHECK(values->settings == SettingValues{
                                  {"HOROVOD_FUSION_THRESHOLD", "33554432"},
                                  {"HOROVOD_CYCLE_TIME", "2.5"},
                                  {"HOROVOD_CACHE_CAPACITY", "2048"},
                                  {"HOROVOD_HIERARCHICAL_ALLREDUCE", "1"},
                                  {"HOROVOD_HIERARCHICAL_ALLGATHER", "0"},
                                  {"HOROVOD_TORUS_ALLREDUCE", "1"},
                                  {"HOROVOD_AUTOTUNE", "1"},
                                  {"HOROVOD_AUTOTUNE_LOG", "horovod_autotune_log.txt"},
                                  {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "5"},
                                  {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "20"},
                                  {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "50"},
                                  {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.9"},
                                  {"HOROVOD_TIMELINE", "horovod_timeline.json"},
                                  {"HOROVOD_TIMELINE_MARK_CYCLES", "1"},
                                  {"HOROVOD_STALL_CHECK_DISABLE", "1"},
                                  {"HOROVOD_STALL_CHECK_TIME_SECONDS", "120"},
                                  {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "240"},
                                  {"HOROVOD_MPI_THREADS_DISABLE", "1"},
                                  {"HOROVOD_NUM_NCCL_STREAMS", "2"},
                                  {"HOROVOD_THREAD_AFFINITY", "1"},
                                  {"HOROVOD_GLOO_TIMEOUT_SECONDS", "60"},
                                  {"HOROVOD_LOG_LEVEL", "INFO"},
                                  {"HOROVOD_LOG_HIDE_TIME", "1"},
                              });
}

TEST_CASE("what a config file leaves empty is absent") {
    const auto* text = GENERATE("", "# nothing\n", "params:\n", "params:\n  cycle_time_ms:\n",
                                "controller:\n", "params: {}\n", "---\n...\n");
    CAPTURE(text);

    const auto values = parse_config(text, "c.yaml");

    REQUIRE(values);
    CHECK(values->settings.empty());
    CHECK_FALSE(values->wants_mpi);
}

TEST_CASE("the controller is the native one or that of an mpirun") {
    CHECK(parse_config("controller: mpi", "c.yaml")->wants_mpi);
    CHECK_FALSE(parse_config("controller: gloo", "c.yaml")->wants_mpi);
}

TEST_CASE("a list of CPUs may be a YAML list or a text") {
    const auto* text = GENERATE("library_options: {thread_affinity: [0, 4]}",
                                "library_options: {thread_affinity: '0,4'}");
    CAPTURE(text);

    const auto values = parse_config(text, "c.yaml");

    REQUIRE(values);
    CHECK(values->settings == SettingValues{{"HOROVOD_THREAD_AFFINITY", "0,4"}});
}

TEST_CASE("errors in a config file begin with file and line, and name the key") {
    struct Example {
        std::string text;
        std::string expected;
    };
    const auto& example = GENERATE(values<Example>({
        {"params:\n  fusion_treshold_mb: 1\n",
         "c.yaml:2: unknown key 'fusion_treshold_mb' in 'params'; did you mean "
         "'fusion_threshold_mb'?"},
        {"parms:\n  cycle_time_ms: 1\n", "c.yaml:1: unknown key 'parms'; did you mean 'params'?"},
        {"timeline:\n  zzzzzzzzzzzz: 1\n",
         "c.yaml:2: unknown key 'zzzzzzzzzzzz' in 'timeline'; known are filename, all, "
         "mark_cycles"},
        {"params:\n  cycle_time_ms: -1\n",
         "c.yaml:2: 'params.cycle_time_ms' '-1' must be a number from 0 to 60000"},
        {"params:\n  cache_capacity: 1.5\n",
         "c.yaml:2: 'params.cache_capacity' '1.5' must be a whole number from 0 to 2147483647"},
        {"params:\n  cycle_time_ms: [1]\n",
         "c.yaml:2: 'params.cycle_time_ms' must be a single value"},
        {"autotune:\n  enabled: maybe\n",
         "c.yaml:2: 'autotune.enabled' is 'maybe', but it must be true or false"},
        {"autotune: true\n",
         "c.yaml:1: 'autotune' must have keys: enabled, log_file, warmup_samples, "
         "steps_per_sample, bayes_opt_max_samples, gaussian_process_noise"},
        {"logging:\n  level: LOUD\n",
         "c.yaml:2: 'logging.level' 'LOUD' must be TRACE, DEBUG, INFO, WARNING, ERROR or FATAL"},
        {"params:\n  cycle_time_ms: 1\n  cycle_time_ms: 2\n",
         "c.yaml:3: 'cycle_time_ms' in 'params' is written twice"},
        {"logging:\n  with_timestamp: true\n  hide_timestamp: true\n",
         "c.yaml:3: 'logging.hide_timestamp' contradicts another key of its section"},
        {"controller: jsrun\n", "c.yaml:1: 'controller' must be gloo or mpi"},
        {"- a\n", "c.yaml:1: there must be sections, such as 'params:'"},
        {"[1]: 2\n",
         "c.yaml:1: unknown key ''; known are controller, params, autotune, timeline, "
         "stall_check, library_options, logging"},
    }));
    CAPTURE(example.text);

    const auto values = parse_config(example.text, "c.yaml");

    REQUIRE_FALSE(values);
    CHECK(values.error().code == Errc::invalid_argument);
    CHECK(values.error().message == example.expected);
}

TEST_CASE("broken YAML is an error with its line") {
    const auto* text = GENERATE("params: {\n", "a: b: c\n", "params:\n\t- x\n", "*a", "\"", "? [");
    CAPTURE(text);

    const auto values = parse_config(text, "c.yaml");

    REQUIRE_FALSE(values);
    CHECK(values.error().message.starts_with("c.yaml:"));
}

TEST_CASE("a config file that cannot be read is named with the cause") {
    CHECK(read_config_file("/nowhere/c.yaml").error().message ==
          "/nowhere/c.yaml: No such file or directory");
}
