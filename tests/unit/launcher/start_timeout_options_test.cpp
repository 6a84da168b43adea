// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/launcher/command_lines.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <string_view>

using hvd::Environment;
using hvd::launch::error;
using hvd::launch::request;
using std::chrono::milliseconds;

namespace {

milliseconds start_timeout(std::string_view text) {
    return request(text).limits.start_timeout;
}

}  // namespace

TEST_CASE("many hosts have more time to start") {
    CHECK(start_timeout("-H n[1-64] a") == milliseconds(30'000));
    CHECK(start_timeout("-H n[1-164] a") == milliseconds(40'000));
    CHECK(start_timeout("-H n[1-1024] a") == milliseconds(30'000 + 96'000 + 5'000));
    CHECK(start_timeout("--ssh-concurrency 8 -H n[1-16] a") == milliseconds(35'000));
}

TEST_CASE("the time to start is what the user says, however many hosts there are") {
    CHECK(start_timeout("--start-timeout 7 -H n[1-1024] a") == milliseconds(7'000));
}

TEST_CASE("the start timeout comes from flag, then environment, then 30 s, and 0 is unset") {
    const Environment seven{{"HOROVOD_START_TIMEOUT", "7"}};

    CHECK(request("-np 1 --start-timeout 5 a", seven).limits.start_timeout == milliseconds(5000));
    CHECK(request("-np 1 --start-timeout 0 a", seven).limits.start_timeout == milliseconds(7000));
    CHECK(request("-np 1 a", seven).limits.start_timeout == milliseconds(7000));
    CHECK(request("-np 1 --start-timeout 0 a").limits.start_timeout == milliseconds(30'000));
    CHECK(request("-np 1 a", {{"HOROVOD_START_TIMEOUT", ""}}).limits.start_timeout ==
          milliseconds(30'000));
}

TEST_CASE("the variable is as the runtime reads it, in whole seconds from 1") {
    const auto* value = GENERATE("soon", "0", "1.5", "-1");
    const auto expected = "HOROVOD_START_TIMEOUT=" + std::string(value) +
                          ": must be a whole number from 1 to 31536000";

    CHECK(error("-np 1 a", {{"HOROVOD_START_TIMEOUT", value}}) == expected);
    CHECK(error("-np 1 --start-timeout 7 --env HOROVOD_START_TIMEOUT=" + std::string(value) +
                " a") == expected);
}
