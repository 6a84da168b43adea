// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/values.hpp"

#include "collectives/base/text.hpp"

#include <cmath>
#include <string>

namespace hvd::launch {
namespace {

Error out_of_range(std::string_view kind, int low, int high) {
    return {Errc::invalid_argument, "must be " + std::string(kind) + " from " +
                                        std::to_string(low) + " to " + std::to_string(high)};
}

}  // namespace

Result<int> whole_number(std::string_view text, int low, int high) {
    const auto value = parse_number<int>(text);
    if (!value || *value < low || *value > high) {
        return out_of_range("a whole number", low, high);
    }
    return *value;
}

Result<std::chrono::milliseconds> seconds(std::string_view text, int low) {
    const auto value = parse_number<double>(text);
    if (!value || !(*value >= low && *value <= kLongestSeconds)) {  // refuses "nan" too
        return out_of_range("a number of seconds", low, kLongestSeconds);
    }
    return std::chrono::milliseconds(std::llround(std::ceil(*value * 1000)));
}

}  // namespace hvd::launch
