// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/model/host.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvd::launch {

inline constexpr int kLongestSeconds = 31'536'000;  // a year
inline constexpr int kMaxPort = 65'535;

/// An error of invalid_argument.
[[nodiscard]] Error wrong(std::string message);

/// The same result, but an error that is about a file or a variable and not about the usage.
template <class Value>
[[nodiscard]] Result<Value> found(Result<Value> result) {
    return result ? std::move(result)
                  : Result<Value>(Error{Errc::unavailable, std::move(result).error().message});
}

/// A whole number in a range. Errors: "must be a whole number from LOW to HIGH".
[[nodiscard]] Result<int> whole_number(std::string_view text, int low, int high);

/// Seconds, perhaps with decimals, from `low` to a year. Errors as above.
[[nodiscard]] Result<std::chrono::milliseconds> seconds(std::string_view text, int low);

/// Stores a name that must not be empty. `what`: "a file name".
[[nodiscard]] Status set_path(std::optional<std::filesystem::path>& field,
                              std::string_view value,
                              std::string_view what = "a file name");

/// The same for a flag that may stand once only.
[[nodiscard]] Status set_path_once(std::optional<std::filesystem::path>& field,
                                   std::string_view value);

/// The words of a command, which must have one.
[[nodiscard]] Status set_command(std::vector<std::string>& field, std::string_view value);

/// "node1:4000", "10.0.0.1:4000", "[fd00::1]:4000".
[[nodiscard]] Result<EndPoint> end_point(std::string_view value, int lowest_port);

/// "20000-20999", or one port.
[[nodiscard]] Result<PortSpan> port_span(std::string_view value);

}  // namespace hvd::launch
