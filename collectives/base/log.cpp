// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/log.hpp"

#include "collectives/base/text.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <string>
#include <utility>

namespace hvd {
namespace {

constexpr std::array<std::pair<std::string_view, LogLevel>, 8> kLevels{{
    {"trace", LogLevel::trace},
    {"debug", LogLevel::debug},
    {"info", LogLevel::info},
    {"warning", LogLevel::warn},
    {"warn", LogLevel::warn},
    {"error", LogLevel::error},
    {"fatal", LogLevel::error},
    {"off", LogLevel::off},
}};

spdlog::level::level_enum to_spdlog(LogLevel level) noexcept {
    switch (level) {
        case LogLevel::trace: return spdlog::level::trace;
        case LogLevel::debug: return spdlog::level::debug;
        case LogLevel::info: return spdlog::level::info;
        case LogLevel::warn: return spdlog::level::warn;
        case LogLevel::error: return spdlog::level::err;
        case LogLevel::off: return spdlog::level::off;
    }
    return spdlog::level::off;
}

}  // namespace

struct Logger::Sink {
    spdlog::logger logger;
};

Result<LogLevel> parse_log_level(std::string_view text) {
    const auto lower = to_lower(text);
    for (const auto& [name, level] : kLevels) {
        if (name == lower) {
            return level;
        }
    }
    return Error{Errc::invalid_argument,
                 "log level '" + std::string(text) +
                     "': it must be TRACE, DEBUG, INFO, WARNING, ERROR or FATAL"};
}

Logger::Logger(std::string_view where, LogLevel level, bool with_time) : level_(level) {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    sink->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        with_time ? "%Y-%m-%dT%H:%M:%S.%eZ horovod: %n: %l: %v" : "horovod: %n: %l: %v",
        spdlog::pattern_time_type::utc));
    sink_ = std::make_shared<Sink>(Sink{spdlog::logger(std::string(where), std::move(sink))});
    sink_->logger.set_level(to_spdlog(level));
}

void Logger::write(LogLevel level, std::string_view text) const {
    if (enabled(level)) {
        sink_->logger.log(to_spdlog(level), text);
    }
}

}  // namespace hvd
