// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// The last lines that a rank wrote to standard error, for the report on its failure.
class StderrTail final {
public:
    static constexpr std::size_t kMaxLines = 20;
    static constexpr std::size_t kMaxBytes = std::size_t{8} << 10;

    void add(std::string_view bytes);

    /// Without their line ends. Of a progress bar only the last step; a line whose begin is no
    /// longer kept starts with "...".
    [[nodiscard]] std::vector<std::string> lines() const;

private:
    std::string bytes_;  // up to twice kMaxBytes, so that it is rarely moved
    bool is_cut_ = false;
};

}  // namespace hvd::launch
