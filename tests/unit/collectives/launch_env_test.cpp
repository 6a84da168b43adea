// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/launch_env.hpp"

#include <catch2/catch.hpp>

#include <string>

namespace hvd::coll {
namespace {

LaunchContract example() {
    return {.topology = {.rank = 5,
                         .size = 8,
                         .local_rank = 1,
                         .local_size = 4,
                         .cross_rank = 1,
                         .cross_size = 2},
            .hostname = "node7",
            .job_id = "0123456789abcdef0123456789abcdef",
            .agent_socket = "horovod-agent-42"};
}

TEST_CASE("what the launcher encodes, the rank decodes") {
    const auto decoded = decode_launch_contract(encode(example()));

    REQUIRE(decoded.has_value());
    CHECK(*decoded == example());
}

TEST_CASE("another lease than the default is told to the ranks") {
    auto contract = example();
    CHECK_FALSE(encode(contract).contains(std::string(kEnvLease)));

    contract.lease = std::chrono::seconds(90);
    const auto decoded = decode_launch_contract(encode(contract));

    REQUIRE(decoded.has_value());
    CHECK(*decoded == contract);
}

TEST_CASE("ranks are told whether they may go on without those that have ended") {
    auto contract = example();
    CHECK_FALSE(encode(contract).contains(std::string(kEnvOnFailure)));

    contract.may_shrink = true;
    const auto decoded = decode_launch_contract(encode(contract));

    REQUIRE(decoded.has_value());
    CHECK(*decoded == contract);
}

TEST_CASE("the contract is found among other variables") {
    auto environment = encode(example());
    environment["PATH"] = "/bin";
    environment["HOROVOD_FUSION_THRESHOLD"] = "0";

    CHECK(has_launch_contract(environment));
    CHECK(decode_launch_contract(environment).has_value());
}

TEST_CASE("without a rank and an agent there is no contract") {
    CHECK_FALSE(has_launch_contract({{"HOROVOD_LOG_LEVEL", "debug"}}));
    CHECK(has_launch_contract({{"HOROVOD_RANK", "0"}}));
    CHECK(has_launch_contract({{"HOROVOD_AGENT_SOCKET", "x"}}));
}

TEST_CASE("every single variable is needed") {
    const auto complete = encode(example());
    for (const auto& [name, value] : complete) {
        CAPTURE(name);
        auto environment = complete;
        environment.erase(name);

        const auto decoded = decode_launch_contract(environment);

        REQUIRE_FALSE(decoded.has_value());
        CHECK(decoded.error().code == Errc::invalid_argument);
        CHECK_THAT(decoded.error().message, Catch::Contains(name + " is not set"));
        CHECK_THAT(decoded.error().message, Catch::Contains(name + " unset"));
    }
}

TEST_CASE("impossible values are refused with all values") {
    const auto [name, value, complaint] = GENERATE(table<std::string, std::string, std::string>({
        {"HOROVOD_RANK", "8", "HOROVOD_RANK must be less than HOROVOD_SIZE"},
        {"HOROVOD_RANK", "-1", "HOROVOD_RANK is not a whole number of at least 0"},
        {"HOROVOD_RANK", "5x", "HOROVOD_RANK is not a whole number of at least 0"},
        {"HOROVOD_SIZE", "0", "HOROVOD_SIZE is not a whole number of at least 1"},
        {"HOROVOD_SIZE", "99999999999", "HOROVOD_SIZE is not a whole number of at least 1"},
        {"HOROVOD_LOCAL_RANK", "4", "HOROVOD_LOCAL_RANK must be less than HOROVOD_LOCAL_SIZE"},
        {"HOROVOD_LOCAL_SIZE", "9", "HOROVOD_LOCAL_SIZE must not exceed HOROVOD_SIZE"},
        {"HOROVOD_CROSS_RANK", "2", "HOROVOD_CROSS_RANK must be less than HOROVOD_CROSS_SIZE"},
        {"HOROVOD_CROSS_SIZE", "9", "HOROVOD_CROSS_SIZE must not exceed HOROVOD_SIZE"},
        {"HOROVOD_HOSTNAME", "", "HOROVOD_HOSTNAME is empty"},
        {"HOROVOD_JOB_ID", "123", "HOROVOD_JOB_ID must be 32 hexadecimal digits"},
        {"HOROVOD_JOB_ID", "g123456789abcdef0123456789abcdef", "HOROVOD_JOB_ID must be 32"},
        {"HOROVOD_AGENT_SOCKET", std::string(108, 'a'), "not be longer than 107 bytes"},
    }));
    CAPTURE(name, value);
    auto environment = encode(example());
    environment[name] = value;

    const auto decoded = decode_launch_contract(environment);

    REQUIRE_FALSE(decoded.has_value());
    CHECK(decoded.error().code == Errc::invalid_argument);
    CHECK_THAT(decoded.error().message, Catch::Contains(complaint));
    CHECK_THAT(decoded.error().message, Catch::Contains(name + "=" + value));
    CHECK_THAT(decoded.error().message, Catch::Contains("HOROVOD_JOB_ID="));
}

TEST_CASE("all complaints come at once") {
    auto environment = encode(example());
    environment.erase("HOROVOD_SIZE");
    environment["HOROVOD_LOCAL_RANK"] = "two";

    const auto decoded = decode_launch_contract(environment);

    REQUIRE_FALSE(decoded.has_value());
    CHECK_THAT(decoded.error().message, Catch::Contains("HOROVOD_SIZE is not set"));
    CHECK_THAT(decoded.error().message, Catch::Contains("HOROVOD_LOCAL_RANK is not a whole"));
}

}  // namespace
}  // namespace hvd::coll
