// SPDX-License-Identifier: Apache-2.0
#include "runtime/timeline/trace_event.hpp"

#include <array>
#include <cstddef>
#include <cstdio>

namespace hvd::rt {
namespace {

// JSON takes up to six bytes for one of a text; TraceFile::kMostElement holds an event with two.
constexpr std::size_t kMostText = 300;

/// Bytes of the UTF-8 character that `text` begins with; 0 where it is none.
std::size_t character_bytes(std::string_view text) noexcept {
    const auto byte = [&](std::size_t at) {
        return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
    };
    const unsigned first = byte(0);
    if (first < 0x80) {
        return 1;
    }
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4) {
        return 0;
    }
    for (std::size_t at = 1; at < length; ++at) {
        if ((byte(at) & 0xc0U) != 0x80) {
            return 0;
        }
    }
    // Forms that are too long, surrogates, and what is beyond the last character.
    const unsigned second = byte(1);
    const bool is_wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                          (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
    return is_wrong ? 0 : length;
}

void append_character(std::string_view character, std::string& out) {
    const auto byte = static_cast<unsigned char>(character.front());
    if (byte == '"' || byte == '\\') {
        out += '\\';
        out += character;
    } else if (byte < 0x20 || byte == 0x7f) {
        std::array<char, 8> escape{};
        (void)std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
        out += escape.data();
    } else {
        out += character;
    }
}

/// Microseconds with three digits behind the point.
std::string micros(std::chrono::nanoseconds time) {
    std::array<char, 32> text{};
    (void)std::snprintf(text.data(), text.size(), "%lld.%03lld",
                        static_cast<long long>(time.count() / 1000),
                        static_cast<long long>(time.count() % 1000));
    return text.data();
}

std::string metadata(std::uint32_t row, std::string_view name, const std::string& arguments) {
    return R"({"name": ")" + std::string(name) + R"(", "ph": "M", "pid": )" + std::to_string(row) +
           R"(, "args": {)" + arguments + "}}";
}

std::string event_at(const TraceEvent& event, const std::string& what) {
    return "{" + what + R"(, "ts": )" + micros(event.time) + R"(, "pid": )" +
           std::to_string(event.row);
}

}  // namespace

std::string quote_json(std::string_view text) {
    std::string out = "\"";
    while (!text.empty()) {
        const auto bytes = character_bytes(text);
        if (bytes == 0) {
            out += "\\ufffd";
            text.remove_prefix(1);
        } else {
            append_character(text.substr(0, bytes), out);
            text.remove_prefix(bytes);
        }
    }
    return out + '"';
}

std::string shortened(std::string_view text) {
    if (text.size() <= kMostText) {
        return std::string(text);
    }
    std::size_t end = kMostText;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80) {
        --end;
    }
    return std::string(text.substr(0, end)) + "...";
}

void append_json(const TraceEvent& event, std::string& out) {
    using enum TraceEvent::Kind;
    switch (event.kind) {
        case tensor:
            out += metadata(event.row, "process_name",
                            R"("name": )" + quote_json(shortened(event.text))) +
                   ",\n" +
                   metadata(event.row, "process_sort_index",
                            R"("sort_index": )" + std::to_string(event.row));
            break;
        case begin:
            out +=
                event_at(event, R"("ph": "B", "name": )" + quote_json(shortened(event.text))) + "}";
            break;
        case end:
            out += event_at(event, R"("ph": "E")") +
                   (event.text.empty() ? "" : R"(, "args": )" + event.text) + "}";
            break;
        case rank_ready:
            out += event_at(event, R"("ph": "X", "name": ")" + std::to_string(event.number) + '"') +
                   R"(, "dur": 0})";
            break;
        case cycle:
            out += event_at(event, R"("ph": "i", "name": "CYCLE_START", "s": "g")") + "}";
            break;
        case lost:
            out += event_at(event, R"("ph": "i", "name": "LOST", "s": "g")") +
                   R"(, "args": {"operations": )" + std::to_string(event.number) + "}}";
            break;
    }
}

void append_json(const TraceOrigin& origin, std::string& out) {
    out += metadata(
        0, "process_name",
        R"("start_time_since_epoch_in_micros": )" + std::to_string(origin.wall.count()) +
            R"(, "start_monotonic_micros": )" + std::to_string(origin.monotonic.count()) +
            R"(, "rank": )" + std::to_string(origin.rank) + R"(, "size": )" +
            std::to_string(origin.size) + R"(, "host": )" + quote_json(shortened(origin.host)) +
            R"(, "job": )" + quote_json(shortened(origin.job)) + R"(, "clock": )" +
            quote_json(origin.clock));
}

}  // namespace hvd::rt
