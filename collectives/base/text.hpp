// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace hvd {

/// The whole text as a number, or nothing: no blanks, no sign on unsigned types, no overflow.
template <class T>
requires std::integral<T> || std::floating_point<T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text) noexcept {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || text.empty()) {
        return std::nullopt;
    }
    return value;
}

/// "a,,b" → {"a", "", "b"}; "" → {""}.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// Words as sh reads them, without expanding anything. Errors: invalid_argument for a quote that is
/// not closed.
[[nodiscard]] Result<std::vector<std::string>> split_shell_words(std::string_view text);

/// A word, and words with blanks between them, as one could type them into a shell.
[[nodiscard]] std::string quote_word(const std::string& word);
[[nodiscard]] std::string quote_words(const std::vector<std::string>& words);

/// In lower case: the characters of ASCII alone, in every locale.
[[nodiscard]] constexpr char to_lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
[[nodiscard]] std::string to_lower(std::string_view text);
[[nodiscard]] bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept;

/// Without blanks, tabs and line ends at both sides.
[[nodiscard]] std::string_view trim(std::string_view text) noexcept;

[[nodiscard]] std::string join(std::span<const std::string> parts, std::string_view separator);

/// The first `most` parts and how many there are besides: "a, b and 3 more". `rest` is their word.
[[nodiscard]] std::string join_first(std::span<const std::string> parts,
                                     std::size_t most,
                                     std::string_view rest = "more");

/// Text of several lines as one printable line: its last `max_characters`.
[[nodiscard]] std::string one_line(std::string_view text, std::size_t max_characters);

/// Control characters as "\x00", so that a person sees them and a terminal does not obey them.
[[nodiscard]] std::string escape_controls(std::string_view text);

/// The candidate with the fewest edits from `word`, when it is close enough to be a typing error;
/// none for words of one or two characters.
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view word,
                                                      std::span<const std::string_view> candidates);

/// Whether `text` matches a shell pattern with `*` and `?`.
[[nodiscard]] bool matches_glob(std::string_view text, std::string_view pattern) noexcept;

/// Ascending numbers as ranges: {0, 2, 3, 4} → "0,2-4".
[[nodiscard]] std::string format_ranges(std::span<const int> sorted);

/// The inverse of format_ranges, for non-negative numbers; sorted, each once. Nothing if malformed.
[[nodiscard]] std::optional<std::vector<int>> parse_ranges(std::string_view text);

/// "SIGSEGV".
[[nodiscard]] std::string signal_name(int number);

}  // namespace hvd
