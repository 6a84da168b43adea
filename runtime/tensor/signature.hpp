// SPDX-License-Identifier: Apache-2.0
//
// What the ranks must agree on before a named tensor may travel.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/types.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hvd::rt {

/// Numbers of elements, outermost dimension first.
using Shape = std::vector<std::int64_t>;

/// Everything about an operation but its name and its addresses.
struct Signature {
    coll::Op op = coll::Op::allreduce;
    coll::ReduceOp reduce = coll::ReduceOp::sum;
    coll::DataType type = coll::DataType::f32;
    coll::Device::Kind device = coll::Device::Kind::host;
    Shape shape;
    Shape strides;  // empty: row-major. Otherwise a dense layout in another order.
    double prescale = 1;
    double postscale = 1;
    int root = 0;

    friend bool operator==(const Signature&, const Signature&) = default;
};

/// Elements of a shape; 1 for the empty shape of a scalar.
[[nodiscard]] std::size_t element_count(std::span<const std::int64_t> shape) noexcept;

/// Bytes of one rank's tensor.
[[nodiscard]] std::size_t byte_count(const Signature& signature) noexcept;

/// The strides to keep in a Signature: empty for row-major ones, unchanged for another order of the
/// same dense memory. Dimensions of one element may have any stride.
/// Errors: invalid_argument when elements overlap, leave gaps or run backwards.
[[nodiscard]] Result<Shape> dense_strides(std::span<const std::int64_t> shape,
                                          std::span<const std::int64_t> strides);

/// Errors: invalid_argument for what no rank could run in a world of `size` ranks.
[[nodiscard]] Status check(const Signature& signature, int size);

/// "[2, 3]".
[[nodiscard]] std::string describe(std::span<const std::int64_t> shape);

}  // namespace hvd::rt
