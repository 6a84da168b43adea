// SPDX-License-Identifier: Apache-2.0
#include "launcher/timeline/trace_reader.hpp"

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>
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

Error no_trace(const std::filesystem::path& file, const std::string& why) {
    return {Errc::invalid_argument,
            file.string() + " is not the trace of a rank: " + why +
                "; take it out of the folder, which is for what --timeline-all writes"};
}

}  // namespace

TraceReader::TraceReader(std::filesystem::path file, std::ifstream stream)
    : file_(std::move(file)), stream_(std::move(stream)) {}

Result<TraceReader> TraceReader::open(const std::filesystem::path& file) {
    std::error_code failure;
    const bool is_file = std::filesystem::is_regular_file(file, failure);
    if (failure) {
        return system_error(file.string(), failure.value());
    }
    if (!is_file) {
        return no_trace(file, "it is no regular file");  // a pipe would be waited for
    }
    errno = 0;
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
        return system_error(file.string(), errno);
    }
    TraceReader reader(file, std::move(stream));
    const auto first = reader.next();
    if (!first) {
        return first.error().code == Errc::invalid_argument ? no_trace(file, first.error().message)
                                                            : first.error();
    }
    if (*first) {
        try {
            reader.start_ = read_start(file, **first);
            return reader;
        } catch (const Json::exception&) {
            // It has not what the first event of a rank's trace has.
        }
    }
    return no_trace(file, "its first event names no rank, host and clock");
}

Error TraceReader::error_here(const std::string& what) {
    if (stream_.bad()) {
        return system_error(file_.string(), errno);
    }
    const bool is_at_end = stream_.eof();
    stream_.clear();
    return {Errc::invalid_argument,
            (is_at_end ? "it ends" : what) + " at about byte " + std::to_string(stream_.tellg())};
}

Result<std::optional<Json>> TraceReader::next() {
    char mark = 0;
    stream_ >> mark;
    if (!stream_) {
        return error_here("it ends");
    }
    if (has_begun_ && mark == ']') {
        return std::optional<Json>();
    }
    const char wanted = has_begun_ ? ',' : '[';
    if (mark != wanted) {
        return error_here(std::string("there is no '") + wanted + "'");
    }
    if (!std::exchange(has_begun_, true) && (stream_ >> std::ws).peek() == ']') {
        return std::optional<Json>();
    }
    try {
        Json event;
        stream_ >> event;
        if (!event.is_object()) {
            return error_here("there is no event");
        }
        return std::optional(std::move(event));
    } catch (const Json::exception&) {  // this library reports by throwing
        return error_here("there is no event");
    }
}

}  // namespace hvd::launch
