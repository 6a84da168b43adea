// SPDX-License-Identifier: Apache-2.0
//
// Loggers are handles that constructors take. They write to standard error: standard output is the
// user's. spdlog itself stays behind this header.
#pragma once

#include "collectives/base/result.hpp"

#include <memory>
#include <string_view>

namespace hvd {

enum class LogLevel { trace, debug, info, warn, error, off };

/// Reads the original's names (TRACE, DEBUG, INFO, WARNING, ERROR, FATAL), in any case.
[[nodiscard]] Result<LogLevel> parse_log_level(std::string_view text);

/// A copyable handle. Thread: any.
class Logger {
public:
    /// `where` is printed in every line, such as "rank 3" or "launch"; `with_time` puts an
    /// ISO 8601 UTC time first.
    Logger(std::string_view where, LogLevel level, bool with_time = true);

    void trace(std::string_view text) const { write(LogLevel::trace, text); }
    void debug(std::string_view text) const { write(LogLevel::debug, text); }
    void info(std::string_view text) const { write(LogLevel::info, text); }
    void warn(std::string_view text) const { write(LogLevel::warn, text); }
    void error(std::string_view text) const { write(LogLevel::error, text); }

    [[nodiscard]] bool enabled(LogLevel level) const noexcept { return level >= level_; }

private:
    struct Sink;

    void write(LogLevel level, std::string_view text) const;

    // Shared because every copy of a handle writes to the one sink.
    std::shared_ptr<Sink> sink_;
    LogLevel level_;
};

}  // namespace hvd
