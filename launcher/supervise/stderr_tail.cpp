// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/stderr_tail.hpp"

#include "collectives/base/text.hpp"

namespace hvd::launch {

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
    for (auto line : split(text, '\n')) {
        while (line.ends_with('\r')) {
            line.remove_suffix(1);
        }
        const auto step = line.rfind('\r');
        lines.emplace_back(step == std::string_view::npos ? line : line.substr(step + 1));
    }
    if (is_cut) {
        lines.front().insert(0, "...");
    }
    return lines;
}

}  // namespace hvd::launch
