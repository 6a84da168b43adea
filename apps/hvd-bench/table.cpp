// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-bench/table.hpp"

#include <array>
#include <cstdio>
#include <string_view>

namespace hvd::bench {
namespace {

std::string_view to_string(Mode mode) {
    return mode == Mode::loop ? "loop" : "touch";
}

template <class... Arguments>
std::string formatted(const char* format, Arguments... arguments) {
    std::array<char, 256> text{};
    const int length = std::snprintf(text.data(), text.size(), format, arguments...);
    return {text.data(), static_cast<std::size_t>(length < 0 ? 0 : length)};
}

/// The reduce operation, where there is one.
std::string op_of(const Options& options) {
    return options.op == coll::Op::allreduce ? std::string(coll::to_string(options.reduce)) : "-";
}

}  // namespace

Bandwidth bandwidth_of(const Options& options, const Line& line, int ranks) {
    if (line.time_us <= 0) {
        return {};
    }
    const auto bytes = static_cast<double>(line.bytes);
    const double share = static_cast<double>(ranks - 1) / ranks;
    switch (options.op) {
        case coll::Op::allreduce: {
            const double algorithm = bytes / line.time_us / 1000;
            return {.algorithm = algorithm, .bus = algorithm * 2 * share};
        }
        case coll::Op::allgather: {
            // nccl-tests counts what each rank receives.
            const double algorithm = bytes * ranks / line.time_us / 1000;
            return {.algorithm = algorithm, .bus = algorithm * share};
        }
        case coll::Op::broadcast: {
            const double algorithm = bytes / line.time_us / 1000;
            return {.algorithm = algorithm, .bus = algorithm};
        }
        case coll::Op::barrier:
        case coll::Op::alltoall:
        case coll::Op::reducescatter: break;
    }
    return {};
}

std::string table_header(const Options& options, int ranks) {
    return formatted("# %s of %s, %s, %d ranks, through the C ABI\n",
                     std::string(coll::to_string(options.op)).c_str(),
                     std::string(coll::to_string(options.type)).c_str(), op_of(options).c_str(),
                     ranks) +
           formatted("#%11s  %5s  %12s  %10s  %10s  %6s\n", "bytes", "mode", "time (us)",
                     "algbw GB/s", "busbw GB/s", "errors");
}

std::string table_line(const Options& options, const Line& line, int ranks) {
    const auto bandwidth = bandwidth_of(options, line, ranks);
    return formatted("%12zu  %5s  %12.2f  %10.3f  %10.3f  %6zu\n", line.bytes,
                     std::string(to_string(line.mode)).c_str(), line.time_us, bandwidth.algorithm,
                     bandwidth.bus, line.errors);
}

std::string csv_line(const Options& options, const Line& line, int ranks) {
    const auto bandwidth = bandwidth_of(options, line, ranks);
    return formatted("%s,%s,%s,%zu,%d,%s,%.3f,%.4f,%.4f,%zu\n",
                     std::string(coll::to_string(options.op)).c_str(),
                     std::string(coll::to_string(options.type)).c_str(), op_of(options).c_str(),
                     line.bytes, ranks, std::string(to_string(line.mode)).c_str(), line.time_us,
                     bandwidth.algorithm, bandwidth.bus, line.errors);
}

}  // namespace hvd::bench
