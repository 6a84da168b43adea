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
    static constexpr std::size_t kMaxBytes = std::size_t{8} << 10;    // of so many lines, or fewer
    static constexpr std::size_t kMostBytes = std::size_t{64} << 10;  // of any number of lines

    explicit StderrTail(std::size_t max_lines = kMaxLines)
        : max_lines_(max_lines),
          max_bytes_(std::clamp(max_lines * (kMaxBytes / kMaxLines), kMaxBytes, kMostBytes)) {}

    void add(std::string_view bytes);

    /// For the report, without their line ends, and without what TensorFlow and absl print while
    /// they start, and without escape sequences (colours). Of a progress bar only the last step; a
    /// line whose begin is no longer kept starts with "...".
    [[nodiscard]] std::vector<std::string> lines() const;

    /// To compare ranks: the lines in the last kMaxBytes, however many the report may have.
    [[nodiscard]] std::vector<std::string> words() const { return split_last(kMaxBytes); }

    /// Whether the report shows one of Python's.
    [[nodiscard]] bool has_traceback() const;

private:
    [[nodiscard]] std::vector<std::string> split_last(std::size_t max_bytes) const;

    std::size_t max_lines_;
    std::size_t max_bytes_;
    std::string bytes_;  // up to twice max_bytes_, so that it is rarely moved
    bool is_cut_ = false;
};

}  // namespace hvd::launch
