// SPDX-License-Identifier: Apache-2.0
//
// Data whose results are exact in every type: small whole numbers that differ between ranks,
// positions and rounds, so that a stale or another rank's value is seen.
#pragma once

#include "apps/hvd-bench/options.hpp"
#include "collectives/types.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace hvd::bench {

/// The subject of a line of the table.
struct Shape {
    Collective collective = Collective::allreduce;
    ReduceOp reduce = ReduceOp::sum;
    coll::DataType type = coll::DataType::f32;
    int rank = 0;
    int size = 1;
    int root = 0;
    std::size_t count =
        0;  // elements of one rank's input; a multiple of `size` where shares go out
};

/// Fills this rank's input of round `round`.
void fill_input(const Shape& shape, std::uint64_t round, std::span<std::byte> input);

/// Elements of `output` that are not the result of round `round`.
[[nodiscard]] std::size_t count_errors(const Shape& shape,
                                       std::uint64_t round,
                                       std::span<const std::byte> output);

}  // namespace hvd::bench
