// SPDX-License-Identifier: Apache-2.0
//
// The properties of a named tensor on which the ranks must agree before it may travel.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/process_set.hpp"
#include "collectives/types.hpp"
#include "runtime/tensor/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hvd::rt {

/// The kind of an operation: a collective, or a change of the ranks that take part in them.
enum class Kind : std::uint8_t { collective, join, add_process_set, remove_process_set };

/// Everything about an operation but its name and its addresses.
struct Signature {
    Kind kind = Kind::collective;
    coll::Op op = coll::Op::allreduce;
    coll::ReduceOp reduce = coll::ReduceOp::sum;
    coll::DataType type = coll::DataType::f32;
    coll::Device device{};           // its index is this rank's own affair
    bool over_contributing = false;  // an average divides by the ranks that have not joined
    coll::Wire wire = coll::Wire::own;
    Shape shape{};
    std::vector<std::int64_t> strides{};  // empty: row-major. Otherwise dense, in another order
    double prescale = 1;
    double postscale = 1;
    int root = 0;  // broadcast: a rank of the world. remove_process_set: the id of the set
    std::vector<std::int64_t> splits{};  // alltoall: rows for each member of the set.
                                         // add_process_set: its ranks

    friend bool operator==(const Signature&, const Signature&) = default;
};

/// Elements of a shape; 1 for the empty shape of a scalar.
[[nodiscard]] std::size_t element_count(std::span<const std::int64_t> shape) noexcept;

/// Elements of one index of the first dimension.
[[nodiscard]] std::size_t row_elements(std::span<const std::int64_t> shape) noexcept;

/// Whether the operation moves a tensor; a barrier and changes of membership do not.
[[nodiscard]] bool has_tensor(const Signature& signature) noexcept;

/// Whether the result's size depends on the tensors of other ranks.
[[nodiscard]] bool has_open_size(const Signature& signature) noexcept;

/// Whether the result has the shape of this rank's tensor.
[[nodiscard]] bool keeps_shape(const Signature& signature) noexcept;

/// Bytes of one rank's tensor.
[[nodiscard]] std::size_t byte_count(const Signature& signature) noexcept;

/// How many of them travel: fewer where values are rounded on the way.
[[nodiscard]] std::size_t wire_byte_count(const Signature& signature) noexcept;

/// How many rows of a reducescatter's result the member at `place` of `size` gets: the first ones
/// get one more where the rows do not divide evenly.
[[nodiscard]] std::int64_t share_of_rows(std::int64_t rows, int place, int size) noexcept;

/// The rows of the members before `place`.
[[nodiscard]] std::int64_t rows_before(std::int64_t rows, int place, int size) noexcept;

/// The strides to keep in a Signature: empty for row-major ones, unchanged for another order of the
/// same dense memory. Dimensions of one element may have any stride.
/// Errors: invalid_argument when elements overlap, leave gaps or run backwards.
[[nodiscard]] Result<std::vector<std::int64_t>> dense_strides(
    std::span<const std::int64_t> shape,
    std::span<const std::int64_t> strides);

/// Completes the signature of an operation of `set`: equal splits where an alltoall names none.
/// Errors: invalid_argument for what no rank of the set could run.
[[nodiscard]] Status complete_signature(Signature& signature, const coll::ProcessSet& set);

/// "allreduce", "adding a process set".
[[nodiscard]] std::string describe_operation(const Signature& signature);

/// "[2, 3]".
[[nodiscard]] std::string describe(std::span<const std::int64_t> shape);

}  // namespace hvd::rt
