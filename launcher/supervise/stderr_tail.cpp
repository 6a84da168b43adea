// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/stderr_tail.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>

namespace hvd::launch {
namespace {

bool contains(std::string_view line, std::string_view words) {
    return line.find(words) != std::string_view::npos;
}

/// A line that a library prints when it is loaded, in each process with other times and process
/// ids.
bool is_start_line(std::string_view line) {
    constexpr std::array<std::string_view, 3> kBegins{
        "WARNING: All log messages before absl::InitializeLog() is called",
        "I0000 00:00:",
        "To enable the following instructions: ",
    };
    constexpr std::array<std::string_view, 5> kWarnings{
        "Unable to register cu",
        "computation placer already registered",
        "TF-TRT Warning: Could not find TensorRT",
        "Could not find cuda drivers",
        "Cannot dlopen some GPU libraries",
    };
    // "2026-01-31 09:15:00.123456: I tensorflow/core/util/port.cc:153] ...", of any level
    constexpr std::size_t kLevel = std::string_view("2026-01-31 09:15:00.123456: ").size();
    const bool is_tensorflow = line.size() > kLevel && line[kLevel - 2] == ':' &&
                               (contains(line, " tensorflow/") || contains(line, " external/"));
    const bool is_absl = line.size() > 1 && line.substr(1).starts_with("0000 00:00:");
    return std::ranges::any_of(kBegins, [&](auto begin) { return line.starts_with(begin); }) ||
           (is_tensorflow && line[kLevel] == 'I') ||
           ((is_tensorflow || is_absl) &&
            std::ranges::any_of(kWarnings, [&](auto words) { return contains(line, words); }));
}

/// How many bytes of `text`, which begins with an ESC, are its escape sequence.
std::size_t escape_size(std::string_view text) {
    constexpr std::string_view kParameters = "0123456789:;<=>? !\"#$%&'()*+,-./";
    const auto end = [&](std::size_t last) { return last < text.size() ? last + 1 : text.size(); };
    const char kind = text.size() > 1 ? text[1] : '\0';
    if (kind == '[') {
        return end(text.find_first_not_of(kParameters, 2));
    }
    if (kind == ']') {  // a title, or a link: up to a BEL, or an ESC and a backslash
        const auto last = text.find_first_of("\a\x1b", 2);
        return last < text.size() && text[last] == '\x1b' ? end(last + 1) : end(last);
    }
    return end(kind == '(' || kind == ')' ? 2 : 1);
}

std::string without_escapes(std::string_view line) {
    std::string plain;
    while (!line.empty()) {
        const auto escape = std::min(line.find('\x1b'), line.size());
        plain += line.substr(0, escape);
        line.remove_prefix(escape);
        line.remove_prefix(line.empty() ? 0 : escape_size(line));
    }
    return plain;
}

}  // namespace

void StderrTail::add(std::string_view bytes) {
    if (bytes.size() > max_bytes_) {
        bytes_.clear();
        is_cut_ = true;
        bytes.remove_prefix(bytes.size() - max_bytes_);
    }
    bytes_.append(bytes);
    if (bytes_.size() > 2 * max_bytes_) {
        bytes_.erase(0, bytes_.size() - max_bytes_);
        is_cut_ = true;
    }
}

std::vector<std::string> StderrTail::lines() const {
    auto lines = split_last(max_bytes_);
    if (lines.size() > max_lines_) {
        lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(max_lines_));
    }
    return lines;
}

bool StderrTail::has_traceback() const {
    constexpr std::string_view kBegin = "Traceback (most recent call last):";
    const auto kept = std::string_view(bytes_);
    return contains(kept.substr(kept.size() - std::min(kept.size(), kMaxBytes)), kBegin);
}

std::vector<std::string> StderrTail::split_last(std::size_t max_bytes) const {
    auto text = std::string_view(bytes_);
    const bool is_cut = is_cut_ || text.size() > max_bytes;
    if (text.size() > max_bytes) {
        text.remove_prefix(text.size() - max_bytes);
    }
    if (text.ends_with('\n')) {
        text.remove_suffix(1);
    }
    if (text.empty()) {
        return {};
    }
    std::vector<std::string> lines;
    for (const auto part : split(text, '\n')) {
        const auto plain = without_escapes(part);
        std::string_view line = plain;
        while (line.ends_with('\r')) {
            line.remove_suffix(1);
        }
        const auto step = line.rfind('\r');
        line = step == std::string_view::npos ? line : line.substr(step + 1);
        if (!is_start_line(line)) {
            lines.emplace_back(line);
        }
    }
    if (is_cut && !lines.empty()) {
        lines.front().insert(0, "...");
    }
    return lines;
}

}  // namespace hvd::launch
