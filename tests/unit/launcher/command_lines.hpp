// SPDX-License-Identifier: Apache-2.0
//
// Command lines as one text, for tests of their meaning.
#pragma once

#include "collectives/base/text.hpp"
#include "launcher/cli/options.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hvd::launch {

using Words = std::vector<std::string>;

inline Words words(std::string_view text) {
    const auto parts = hvd::split(text, ' ');
    return {parts.begin(), parts.end()};
}

inline LaunchRequest request(std::string_view text, const Environment& environment = {}) {
    const auto parsed = parse_command_line(words(text), environment);
    INFO((parsed ? "" : parsed.error().message));
    REQUIRE(parsed);
    const auto* request = std::get_if<LaunchRequest>(&*parsed);
    REQUIRE(request != nullptr);
    return *request;
}

inline std::string error(std::string_view text, const Environment& environment = {}) {
    const auto parsed = parse_command_line(words(text), environment);
    return parsed ? "" : parsed.error().message;
}

}  // namespace hvd::launch
