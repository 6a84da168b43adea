// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/hvd-bench/measure.hpp"
#include "apps/hvd-bench/options.hpp"

#include <span>
#include <string>
#include <vector>

namespace hvd::bench {

/// Algorithm bandwidth is bytes / time; bus bandwidth scales it to what each link carries, so that
/// it can be compared between numbers of ranks. Both as nccl-tests defines them, in GB/s.
struct Bandwidth {
    double algorithm = 0;
    double bus = 0;
};
[[nodiscard]] Bandwidth bandwidth_of(const Options& options, const Line& line, int ranks);

/// Of one rank's input, as whole elements; where every rank gets a share, as equal shares.
[[nodiscard]] std::vector<std::size_t> sizes_of(const Options& options, int ranks);

[[nodiscard]] std::string table_header(const Options& options, int ranks);
[[nodiscard]] std::string table_line(const Options& options, const Line& line, int ranks);

inline constexpr const char* kCsvHeader =
    "collective,dtype,op,bytes,ranks,mode,time_us,algbw,busbw,errors\n";
[[nodiscard]] std::string csv_line(const Options& options, const Line& line, int ranks);

/// All lines as one object; op is "-" where nothing is reduced.
[[nodiscard]] std::string json_text(const Options& options, std::span<const Line> lines, int ranks);

}  // namespace hvd::bench
