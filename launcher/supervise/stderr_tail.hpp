// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The last lines that a rank wrote to standard error, for the report on its failure.
class StderrTail final {
public:
    static constexpr std::size_t kMaxLines = 20;
    static constexpr std::size_t kMaxBytes = std::size_t{8} << 10;  // of so many lines, or fewer

    explicit StderrTail(std::size_t max_lines = kMaxLines)
        : max_lines_(max_lines),
          max_bytes_(std::max(kMaxBytes, max_lines * (kMaxBytes / kMaxLines))) {}

    void add(std::string_view bytes);

    /// Without their line ends. Of a progress bar only the last step; a line whose begin is no
    /// longer kept starts with "...".
    [[nodiscard]] std::vector<std::string> lines() const;

private:
    std::size_t max_lines_;
    std::size_t max_bytes_;
    std::string bytes_;  // up to twice max_bytes_, so that it is rarely moved
    bool is_cut_ = false;
};

}  // namespace hvd::launch
