// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/host_ranges.hpp"

#include "collectives/base/text.hpp"
#include "launcher/model/host.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace hvd::launch {
namespace {

constexpr std::size_t kMaxNames = 65'536;
constexpr std::size_t kMaxDigits = 9;

Error wrong(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

/// Of something on a node.
std::optional<int> count_in(std::string_view text) {
    const auto number = parse_number<int>(text);
    return number && *number >= 1 && *number <= kMaxSlots ? number : std::nullopt;
}

std::string quote(std::string_view text) {
    return "'[" + std::string(text) + "]'";
}

Result<int> read_number(std::string_view bracket, std::string_view text) {
    const auto number = text.size() <= kMaxDigits ? parse_number<int>(text) : std::nullopt;
    if (!number || *number < 0 || text.front() == '+') {
        return wrong("in " + quote(bracket) + " '" + std::string(text) +
                     "' is not a number; write ranges such as [1-4,7]");
    }
    return *number;
}

/// As many digits as the range was written with: 01, 02, ... 10.
std::string padded(int number, std::size_t width) {
    auto digits = std::to_string(number);
    return std::string(width - std::min(width, digits.size()), '0') + digits;
}

/// "01-03,07" → 01, 02, 03, 07
Result<std::vector<std::string>> read_bracket(std::string_view bracket) {
    std::vector<std::string> numbers;
    for (const auto part : split(bracket, ',')) {
        const auto dash = part.find('-');
        const auto first_text = part.substr(0, dash);
        const auto last_text = dash == std::string_view::npos ? first_text : part.substr(dash + 1);
        HVD_TRY(const int first, read_number(bracket, first_text));
        HVD_TRY(const int last, read_number(bracket, last_text));
        if (last < first) {
            return wrong(quote(bracket) + " counts down from " + std::string(first_text) + " to " +
                         std::string(last_text));
        }
        if (static_cast<std::size_t>(last) - static_cast<std::size_t>(first) >= kMaxNames) {
            return wrong(quote(bracket) + " stands for more than " + std::to_string(kMaxNames) +
                         " hosts");
        }
        for (int number = first; number <= last; ++number) {
            numbers.push_back(padded(number, first_text.size()));
        }
    }
    return numbers;
}

}  // namespace

Result<std::vector<std::string>> expand_ranges(std::string_view text) {
    std::vector<std::string> names{""};
    while (!text.empty()) {
        const auto open = text.find('[');
        const auto plain = text.substr(0, open);
        for (auto& name : names) {
            name += plain;
        }
        if (open == std::string_view::npos) {
            break;
        }
        const auto close = text.find(']', open);
        if (close == std::string_view::npos) {
            return wrong("the closing ']' is missing");
        }
        HVD_TRY(const auto numbers, read_bracket(text.substr(open + 1, close - open - 1)));
        if (names.size() * numbers.size() > kMaxNames) {
            return wrong("its ranges stand for more than " + std::to_string(kMaxNames) + " hosts");
        }
        std::vector<std::string> longer;
        for (const auto& name : names) {
            for (const auto& number : numbers) {
                longer.push_back(name + number);
            }
        }
        names = std::move(longer);
        text.remove_prefix(close + 1);
    }
    return names;
}

std::vector<std::string_view> split_host_list(std::string_view text) {
    std::vector<std::string_view> items;
    std::size_t begin = 0;
    bool is_inside = false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        is_inside = text[at] == '[' || (is_inside && text[at] != ']');
        if (text[at] == ',' && !is_inside) {
            items.push_back(text.substr(begin, at - begin));
            begin = at + 1;
        }
    }
    items.push_back(text.substr(begin));
    return items;
}

std::optional<std::vector<int>> expand_counts(std::string_view text) {
    std::vector<int> numbers;
    for (const auto part : split(text, ',')) {
        const auto bracket = part.find("(x");
        const auto number = count_in(part.substr(0, bracket));
        int times = 1;
        if (bracket != std::string_view::npos) {
            const auto count = part.ends_with(')')
                                   ? count_in(part.substr(bracket + 2, part.size() - bracket - 3))
                                   : std::nullopt;
            times = count.value_or(0);
        }
        if (!number || times == 0 || numbers.size() > std::size_t{kMaxSlots}) {
            return std::nullopt;
        }
        numbers.insert(numbers.end(), static_cast<std::size_t>(times), *number);
    }
    return numbers;
}

}  // namespace hvd::launch
