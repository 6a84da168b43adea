// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-bench/table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace hvd::bench {
namespace {

template <class... Arguments>
std::string formatted(const char* format, Arguments... arguments) {
    std::array<char, 256> text{};
    const int length = std::snprintf(text.data(), text.size(), format, arguments...);
    return {text.data(), static_cast<std::size_t>(length < 0 ? 0 : length)};
}

/// The reduce operation, where there is one.
std::string_view op_of(const Options& options) {
    return reduces(options.collective) ? to_string(options.reduce) : "-";
}

/// The wrong elements; `unknown` where nobody looked.
std::string errors_of(const Options& options, const Line& line, std::string_view unknown) {
    return options.checks ? std::to_string(line.errors) : std::string(unknown);
}

std::string quoted(std::string_view text) {
    return '"' + std::string(text) + '"';
}

}  // namespace

Bandwidth bandwidth_of(const Options& options, const Line& line, int ranks) {
    if (line.time_us <= 0) {
        return {};
    }
    const double one = static_cast<double>(line.bytes) / line.time_us / 1000;
    const double share = static_cast<double>(ranks - 1) / ranks;
    switch (options.collective) {
        case Collective::allreduce: return {.algorithm = one, .bus = one * 2 * share};
        case Collective::alltoall:
        case Collective::reducescatter: return {.algorithm = one, .bus = one * share};
        case Collective::allgather:  // nccl-tests counts what each rank receives
            return {.algorithm = one * ranks, .bus = one * ranks * share};
        case Collective::broadcast: return {.algorithm = one, .bus = one};
        case Collective::barrier: break;
    }
    return {};
}

std::vector<std::size_t> sizes_of(const Options& options, int ranks) {
    if (options.collective == Collective::barrier) {
        return {0};
    }
    const bool gives_shares = options.collective == Collective::alltoall ||
                              options.collective == Collective::reducescatter;
    const auto whole =
        coll::size_of(options.type) * (gives_shares ? static_cast<std::size_t>(ranks) : 1);
    std::vector<std::size_t> sizes;
    for (auto bytes = options.min_bytes; bytes <= options.max_bytes;) {
        const auto sent = bytes - bytes % whole;
        if (sent != 0 && (sizes.empty() || sizes.back() != sent)) {
            sizes.push_back(sent);
        }
        bytes = options.step_bytes != 0 ? bytes + options.step_bytes
                                        : std::max<std::size_t>(bytes, 1) * options.factor;
    }
    return sizes;
}

std::string table_header(const Options& options, int ranks) {
    return "# " + std::string(to_string(options.collective)) + " of " +
           std::string(coll::to_string(options.type)) + ", " + std::string(op_of(options)) + ", " +
           std::to_string(ranks) + " ranks, through the C ABI\n" +
           formatted("#%11s  %5s  %12s  %10s  %10s  %6s\n", "bytes", "mode", "time (us)",
                     "algbw GB/s", "busbw GB/s", "errors");
}

std::string table_line(const Options& options, const Line& line, int ranks) {
    const auto bandwidth = bandwidth_of(options, line, ranks);
    return formatted("%12zu  %5s  %12.2f  %10.3f  %10.3f  %6s\n", line.bytes,
                     std::string(to_string(line.mode)).c_str(), line.time_us, bandwidth.algorithm,
                     bandwidth.bus, errors_of(options, line, "-").c_str());
}

std::string csv_line(const Options& options, const Line& line, int ranks) {
    const auto bandwidth = bandwidth_of(options, line, ranks);
    return formatted("%s,%s,%s,%zu,%d,%s,%.3f,%.4f,%.4f,%s\n",
                     std::string(to_string(options.collective)).c_str(),
                     std::string(coll::to_string(options.type)).c_str(),
                     std::string(op_of(options)).c_str(), line.bytes, ranks,
                     std::string(to_string(line.mode)).c_str(), line.time_us, bandwidth.algorithm,
                     bandwidth.bus, errors_of(options, line, "").c_str());
}

std::string json_text(const Options& options, std::span<const Line> lines, int ranks) {
    std::string text = "{\"collective\": " + quoted(to_string(options.collective)) +
                       ", \"dtype\": " + quoted(coll::to_string(options.type)) +
                       ", \"op\": " + quoted(op_of(options)) +
                       ", \"ranks\": " + std::to_string(ranks) +
                       ", \"version\": " + quoted(hvd_version()) + ",\n \"lines\": [";
    const char* separator = "\n";
    for (const auto& line : lines) {
        const auto bandwidth = bandwidth_of(options, line, ranks);
        text += separator + ("  {\"bytes\": " + std::to_string(line.bytes)) +
                ", \"mode\": " + quoted(to_string(line.mode)) +
                formatted(R"(, "time_us": %.3f, "algbw": %.4f, "busbw": %.4f, )", line.time_us,
                          bandwidth.algorithm, bandwidth.bus) +
                "\"errors\": " + errors_of(options, line, "null") + "}";
        separator = ",\n";
    }
    return text + "\n ]}\n";
}

}  // namespace hvd::bench
