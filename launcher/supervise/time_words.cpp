// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/time_words.hpp"

#include <array>
#include <cstdio>

namespace hvd::launch {

std::string describe_time(double seconds) {
    constexpr double kExact = 100;
    constexpr double kMilliseconds = 1e3;
    if (seconds * kMilliseconds < 1) {
        return "less than 1 ms";
    }
    std::array<char, 32> text{};
    const bool is_short = seconds < 1;
    (void)std::snprintf(text.data(), text.size(), "%.*f %s", is_short || seconds >= kExact ? 0 : 1,
                        is_short ? seconds * kMilliseconds : seconds, is_short ? "ms" : "s");
    return text.data();
}

}  // namespace hvd::launch
