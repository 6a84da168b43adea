// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/random_id.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include <sys/random.h>

namespace hvd {

Result<std::string> random_id() {
    std::array<std::uint8_t, 16> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        return system_error("getrandom", errno);
    }
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const unsigned byte : bytes) {
        text += kDigits[byte >> 4U];
        text += kDigits[byte & 15U];
    }
    return text;
}

}  // namespace hvd
