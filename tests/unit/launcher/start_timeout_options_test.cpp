// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/text.hpp"
#include "launcher/cli/options.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <variant>
#include <vector>

using hvd::launch::LaunchRequest;
using hvd::launch::parse_command_line;
using std::chrono::milliseconds;

namespace {

milliseconds start_timeout(std::string_view text) {
    const auto parts = hvd::split(text, ' ');
    const auto parsed = parse_command_line({parts.begin(), parts.end()}, {});
    INFO((parsed ? "" : parsed.error().message));
    REQUIRE(parsed);
    const auto* request = std::get_if<LaunchRequest>(&*parsed);
    REQUIRE(request != nullptr);
    return request->start_timeout;
}

TEST_CASE("many hosts have more time to start") {
    CHECK(start_timeout("-H n[1-64] a") == milliseconds(30'000));
    CHECK(start_timeout("-H n[1-164] a") == milliseconds(40'000));
    CHECK(start_timeout("-H n[1-1024] a") == milliseconds(30'000 + 96'000 + 5'000));
    CHECK(start_timeout("--ssh-concurrency 8 -H n[1-16] a") == milliseconds(35'000));
}

TEST_CASE("the time to start is what the user says, however many hosts there are") {
    CHECK(start_timeout("--start-timeout 7 -H n[1-1024] a") == milliseconds(7'000));
}

}  // namespace
