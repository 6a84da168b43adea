// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/types.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>

namespace hvd::bench {

/// How a call is repeated. `loop`: back to back. `touch`: before each call every rank rewrites its
/// data and all meet; the time is from the last start to the last end.
enum class Mode { loop, touch };

struct Options {
    coll::Op op = coll::Op::allreduce;
    coll::ReduceOp reduce = coll::ReduceOp::sum;
    coll::DataType type = coll::DataType::f32;
    std::size_t min_bytes = 4;
    std::size_t max_bytes = std::size_t{64} << 20;
    std::size_t factor = 4;           // from one size to the next
    std::optional<int> iterations{};  // nothing: fewer for larger messages
    std::optional<Mode> mode{};       // nothing: both
    std::filesystem::path csv{};      // empty: none
};

/// The command line, or the text of --help. Errors: invalid_argument.
struct Help {
    std::string text;
};
[[nodiscard]] Result<std::variant<Options, Help>> parse_options(int argc, const char* const* argv);

}  // namespace hvd::bench
