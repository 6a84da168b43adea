// SPDX-License-Identifier: Apache-2.0
#include "launcher/timeline/trace_reader.hpp"

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

namespace hvd::launch {
namespace {

using Json = TraceReader::Json;

constexpr std::int64_t kNsInUs = 1000;

TraceStart read_start(const std::filesystem::path& file, const Json& event) {
    const auto& about = event.at("args");
    return {.file = file,
            .rank = about.at("rank").get<int>(),
            .size = about.at("size").get<int>(),
            .host = about.at("host").get<std::string>(),
            .job = about.at("job").get<std::string>(),
            .clock = about.at("clock").get<std::string>(),
            .steady_ns = about.at("start_monotonic_micros").get<std::int64_t>() * kNsInUs,
            .wall_ns = about.at("start_time_since_epoch_in_micros").get<std::int64_t>() * kNsInUs};
}

}  // namespace

TraceReader::TraceReader(std::filesystem::path file, std::ifstream stream)
    : file_(std::move(file)), stream_(std::move(stream)) {}

Result<TraceReader> TraceReader::open(const std::filesystem::path& file) {
    errno = 0;
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
        return system_error(file.string(), errno);
    }
    TraceReader reader(file, std::move(stream));
    HVD_TRY(const auto first, reader.next());
    if (first) {
        try {
            reader.start_ = read_start(file, *first);
            return reader;
        } catch (const Json::exception&) {
            // It has not what the first event of a rank's trace has.
        }
    }
    return Error{Errc::invalid_argument,
                 file.string() +
                     " is not the trace of a rank: its first event names no rank, host and clock; "
                     "take it out of the folder, which is for what --timeline-all writes"};
}

Error TraceReader::error_here(const std::string& why) {
    stream_.clear();
    return {Errc::invalid_argument, file_.string() +
                                        " is no JSON array of events from about byte " +
                                        std::to_string(stream_.tellg()) + " on: " + why};
}

Result<std::optional<Json>> TraceReader::next() {
    char mark = 0;
    stream_ >> mark;
    if (!stream_) {
        return error_here("it ends there");
    }
    if (has_begun_ && mark == ']') {
        return std::optional<Json>();
    }
    const char wanted = has_begun_ ? ',' : '[';
    if (mark != wanted) {
        return error_here(std::string("there is '") + mark + "' instead of '" + wanted + "'");
    }
    if (!std::exchange(has_begun_, true) && (stream_ >> std::ws).peek() == ']') {
        return std::optional<Json>();
    }
    try {
        Json event;
        stream_ >> event;
        if (!event.is_object()) {
            return error_here("there is something other than an event");
        }
        return std::optional(std::move(event));
    } catch (const Json::exception& error) {  // this library reports by throwing
        return error_here(error.what());
    }
}

}  // namespace hvd::launch
