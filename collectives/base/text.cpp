// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/text.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <numeric>
#include <utility>

namespace hvd {
namespace {

/// Levenshtein distance, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replace, row[j] + 1, diagonal + 1});
        }
    }
    return row[b.size()];
}

bool is_control(char c) noexcept {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
}

/// The most edits that count as a typing error. A short word is soon another one.
std::size_t most_edits(std::size_t length) {
    constexpr std::size_t kSwap = 2;  // two characters in the wrong order
    if (length < 3) {
        return 0;
    }
    return length == 3 ? 1 : std::max(kSwap, length / 3);
}

constexpr int kMaxRangeValue = 1 << 20;  // a typing error must not fill the memory

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (true) {
        const auto end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) {
            return parts;
        }
        text.remove_prefix(end + 1);
    }
}

std::string_view trim(std::string_view text) noexcept {
    constexpr std::string_view kBlank = " \t\r\n\v\f";
    const auto first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos) {
        return {};
    }
    return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string to_lower(std::string_view text) {
    std::string lower;
    lower.reserve(text.size());
    for (const char c : text) {
        lower += to_lower(c);
    }
    return lower;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept {
    return std::ranges::equal(a, b, [](char x, char y) { return to_lower(x) == to_lower(y); });
}

Result<std::vector<std::string>> split_shell_words(std::string_view text) {
    std::vector<std::string> words;
    std::string word;
    bool is_in_word = false;
    char quote = '\0';
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        const bool has_next = at + 1 < text.size();
        if (c == quote && quote != '\0') {
            quote = '\0';
        } else if (quote == '\0' && (c == '\'' || c == '"')) {
            quote = c;
            is_in_word = true;
        } else if (c == '\\' && quote != '\'' && has_next) {
            word += text[++at];
            is_in_word = true;
        } else if (quote == '\0' && (c == ' ' || c == '\t' || c == '\n')) {
            if (std::exchange(is_in_word, false)) {
                words.push_back(std::exchange(word, {}));
            }
        } else {
            word += c;
            is_in_word = true;
        }
    }
    if (quote != '\0') {
        return Error{Errc::invalid_argument,
                     "a quote is not closed in '" + std::string(text) + "'"};
    }
    if (is_in_word) {
        words.push_back(std::move(word));
    }
    return words;
}

std::string quote_word(const std::string& word) {
    const auto is_plain = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("_-./=:,@%+").find(c) != std::string_view::npos;
    };
    if (!word.empty() && std::ranges::all_of(word, is_plain)) {
        return word;
    }
    std::string quoted = "'";
    for (const char c : word) {
        quoted += c == '\'' ? "'\\''" : std::string(1, c);
    }
    return quoted + "'";
}

std::string quote_words(const std::vector<std::string>& words) {
    std::string text;
    for (const auto& word : words) {
        text += (text.empty() ? "" : " ") + quote_word(word);
    }
    return text;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
    std::string text;
    for (const auto& part : parts) {
        if (&part != parts.data()) {
            text += separator;
        }
        text += part;
    }
    return text;
}

std::string join_first(std::span<const std::string> parts,
                       std::size_t most,
                       std::string_view rest) {
    if (parts.size() <= most) {
        return join(parts, ", ");
    }
    return join(parts.first(most), ", ") + " and " + std::to_string(parts.size() - most) + " " +
           std::string(rest);
}

std::string one_line(std::string_view text, std::size_t max_characters) {
    std::vector<std::string> lines;
    for (const auto line : split(text, '\n')) {
        std::string shown(trim(line));
        std::ranges::replace_if(shown, is_control, '?');
        if (!shown.empty()) {
            lines.push_back(std::move(shown));
        }
    }
    auto joined = join(lines, "; ");
    if (joined.size() > max_characters) {
        joined.replace(0, joined.size() - max_characters, "...");
    }
    return joined;
}

std::string escape_controls(std::string_view text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string shown;
    for (const char c : text) {
        if (!is_control(c)) {
            shown += c;
        } else {
            const auto byte = static_cast<unsigned char>(c);
            shown.append("\\x").append({kDigits[byte / 16], kDigits[byte % 16]});
        }
    }
    return shown;
}

std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates) {
    std::optional<std::string_view> best;
    std::size_t best_distance = most_edits(word.size()) + 1;
    for (const auto candidate : candidates) {
        const auto distance = edit_distance(word, candidate);
        if (distance < best_distance) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

bool matches_glob(std::string_view text, std::string_view pattern) noexcept {
    // Greedy with one step back to the last star: linear for every pattern that people write.
    std::size_t t = 0;
    std::size_t p = 0;
    std::size_t star = std::string_view::npos;
    std::size_t star_text = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            star_text = t;
        } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
            ++p;
            ++t;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            t = ++star_text;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::string format_ranges(std::span<const int> sorted) {
    std::string text;
    for (std::size_t first = 0; first < sorted.size();) {
        std::size_t last = first;
        while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) {
            ++last;
        }
        text += (text.empty() ? "" : ",") + std::to_string(sorted[first]);
        if (last > first) {
            text += "-" + std::to_string(sorted[last]);
        }
        first = last + 1;
    }
    return text;
}

std::optional<std::vector<int>> parse_ranges(std::string_view text) {
    std::vector<int> values;
    for (const auto part : split(text, ',')) {
        const auto dash = part.find('-');
        const auto first = parse_number<int>(part.substr(0, dash));
        const auto last =
            dash == std::string_view::npos ? first : parse_number<int>(part.substr(dash + 1));
        if (!first || !last || *first < 0 || *last < *first || *last > kMaxRangeValue) {
            return std::nullopt;
        }
        for (int value = *first; value <= *last; ++value) {
            values.push_back(value);
        }
    }
    std::ranges::sort(values);
    // Not ranges::unique: clang 14 cannot use libstdc++'s ranges::subrange.
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
}

std::string signal_name(int number) {
    const auto* name = ::sigabbrev_np(number);
    return name == nullptr ? "number " + std::to_string(number) : "SIG" + std::string(name);
}

}  // namespace hvd
