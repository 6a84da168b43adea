// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/values.hpp"

#include "collectives/base/text.hpp"

#include <cmath>
#include <utility>

namespace hvd::launch {
namespace {

Error out_of_range(std::string_view kind, int low, int high) {
    return wrong("must be " + std::string(kind) + " from " + std::to_string(low) + " to " +
                 std::to_string(high));
}

}  // namespace

Error wrong(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

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

Status set_path(std::optional<std::filesystem::path>& field,
                std::string_view value,
                std::string_view what) {
    if (value.empty()) {
        return wrong(std::string(what) + " is missing");
    }
    field = value;
    return ok();
}

Status set_path_once(std::optional<std::filesystem::path>& field, std::string_view value) {
    if (field) {
        return wrong("it is written twice, before this with " + field->string() +
                     "; leave one out");
    }
    return set_path(field, value);
}

Status set_command(std::vector<std::string>& field, std::string_view value) {
    HVD_TRY(field, split_shell_words(value));
    return field.empty() || field.front().empty() ? Status(wrong("a command is missing")) : ok();
}

Result<EndPoint> end_point(std::string_view value, int lowest_port) {
    const auto colon = value.rfind(':');
    const auto port = colon == std::string_view::npos
                          ? Result<int>(wrong(""))
                          : whole_number(value.substr(colon + 1), lowest_port, kMaxPort);
    auto host = value.substr(0, colon);
    const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (has_brackets) {
        host = host.substr(1, host.size() - 2);
    }
    if (!port || host.empty() || (!has_brackets && host.find(':') != std::string_view::npos)) {
        return wrong("must be HOST:PORT, such as node1:4000 or [fd00::1]:4000");
    }
    return EndPoint{.host = std::string(host), .port = *port};
}

Result<PortSpan> port_span(std::string_view value) {
    const auto dash = value.find('-');
    const auto first = whole_number(trim(value.substr(0, dash)), 1, kMaxPort);
    const auto last = dash == std::string_view::npos
                          ? first
                          : whole_number(trim(value.substr(dash + 1)), 1, kMaxPort);
    if (!first || !last || *last < *first) {
        return wrong("must be two ports from 1 to 65535, such as 20000-20999");
    }
    return PortSpan{.first = *first, .last = *last};
}

}  // namespace hvd::launch
