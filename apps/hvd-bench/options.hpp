// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/types.hpp"
#include "runtime/include/hvd/hvd.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace hvd::bench {

/// How a call is repeated. `loop`: back to back. `touch`: before each call every rank rewrites its
/// data and all meet; the time is from the last start to the last end.
enum class Mode { loop, touch };

/// The measurable operations of hvd.h; the values are those of hvd_op.
enum class Collective : std::int32_t {
    allreduce = HVD_ALLREDUCE,
    allgather = HVD_ALLGATHER,
    broadcast = HVD_BROADCAST,
    alltoall = HVD_ALLTOALL,
    reducescatter = HVD_REDUCESCATTER,
    barrier = HVD_BARRIER,
};
[[nodiscard]] std::string_view to_string(Collective collective);
[[nodiscard]] std::string_view to_string(ReduceOp op);
[[nodiscard]] std::string_view to_string(Mode mode);

[[nodiscard]] constexpr bool reduces(Collective collective) {
    return collective == Collective::allreduce || collective == Collective::reducescatter;
}

struct Options {
    Collective collective = Collective::allreduce;
    ReduceOp reduce = ReduceOp::sum;
    coll::DataType type = coll::DataType::f32;
    std::size_t min_bytes = 4;
    std::size_t max_bytes = std::size_t{64} << 20;
    std::size_t factor = 4;           // from one size to the next ...
    std::size_t step_bytes = 0;       // ... or, if not 0, so many more
    std::optional<int> iterations{};  // nothing: fewer for larger messages
    int warm_up = 3;                  // calls before
    int root = 0;                     // of broadcast
    bool checks = true;               // the data
    std::optional<Mode> mode{};       // nothing: both
    std::filesystem::path csv{};      // empty: none
    std::filesystem::path json{};     // empty: none
};

/// The command line, or the text of --help. Errors: invalid_argument.
struct Help {
    std::string text;
};
[[nodiscard]] Result<std::variant<Options, Help>> parse_options(int argc, const char* const* argv);

}  // namespace hvd::bench
