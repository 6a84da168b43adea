// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/timeline/trace_start.hpp"

#include <filesystem>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

namespace hvd::launch {

/// Reads the trace of a rank event by event: one is in memory at a time.
class TraceReader final {
public:
    using Json = nlohmann::ordered_json;

    /// Reads the first event. Errors: unavailable where the file cannot be read; invalid_argument,
    /// with the file's name, where it is not a trace of --timeline-all.
    [[nodiscard]] static Result<TraceReader> open(const std::filesystem::path& file);

    [[nodiscard]] const TraceStart& start() const noexcept { return start_; }

    /// The next event, an object; nothing behind the last. Errors: unavailable where the file
    /// cannot be read; invalid_argument, with the place in bytes, where it is no longer a JSON
    /// array of events: it was cut, or is being written.
    [[nodiscard]] Result<std::optional<Json>> next();

private:
    TraceReader(std::filesystem::path file, std::ifstream stream);

    [[nodiscard]] Error error_here(const std::string& what);

    std::filesystem::path file_;
    std::ifstream stream_;
    bool has_begun_ = false;
    TraceStart start_;
};

}  // namespace hvd::launch
