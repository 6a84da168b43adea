// SPDX-License-Identifier: Apache-2.0
//
// One event of a Chrome trace, and how it is written.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace hvd::rt {

struct TraceEvent {
    enum class Kind : std::uint8_t {
        tensor,      // `text` is the name of the row `row`
        begin,       // of the activity `text` in the row
        end,         // of the innermost; `text`: its arguments as JSON, or empty
        rank_ready,  // the rank `number`, in the row
        cycle,       // of the engine
        lost,        // `number` operations were left out before this point
    };

    Kind kind = Kind::begin;
    std::uint32_t row = 0;
    std::int64_t number = 0;
    std::chrono::nanoseconds time{0};  // since the trace began
    std::string text{};
};

/// The origin of a trace, which its first event states.
struct TraceOrigin {
    int rank = 0;
    int size = 1;
    std::string host{};
    std::string job{};                       // as its launcher names it; empty: it has no name
    std::string clock{};                     // equal where `monotonic` is the same clock
    std::chrono::microseconds wall{0};       // since the epoch, when the trace began
    std::chrono::microseconds monotonic{0};  // likewise, of the host's steady clock
};

/// The text as a JSON string, in quotes. Bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string quote_json(std::string_view text);

/// The first bytes of a text that is too long for an event, whole characters, and "...".
[[nodiscard]] std::string shortened(std::string_view text);

/// Appends the event as JSON objects with commas between them, each on a line. Names are shortened.
void append_json(const TraceEvent& event, std::string& out);
void append_json(const TraceOrigin& origin, std::string& out);

}  // namespace hvd::rt
