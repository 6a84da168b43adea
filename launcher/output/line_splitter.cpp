// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/line_splitter.hpp"

namespace hvd::launch {

std::size_t LineSplitter::piece_end(std::string_view bytes, std::size_t line) noexcept {
    const auto carriage = bytes.substr(0, line).find('\r');
    if (carriage == std::string_view::npos) {
        return line == std::string_view::npos ? line : line + 1;
    }
    // \r\n is one line end.
    return carriage + 1 == line ? line + 1 : carriage + 1;
}

}  // namespace hvd::launch
