// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/types.hpp"

#include <cstddef>
#include <span>

namespace hvd::coll {

/// An allreduce of f16 or bf16 for a library that chooses the order of the additions: elements are
/// widened to f32 first, partial results may be combined in any order, and the result is rounded
/// once at the end. Reducer does the same three steps to an element, so that results differ only
/// where the order of the additions does.
class HalfSums {
public:
    /// Sums and products: of two zeros, min and max are whichever came first, so that partners that
    /// swap theirs would end with different signs.
    [[nodiscard]] static bool can(const Task& task) noexcept {
        return (task.type == DataType::f16 || task.type == DataType::bf16) &&
               task.reduce != ReduceOp::min && task.reduce != ReduceOp::max &&
               !is_adasum(task.reduce);
    }

    /// Takes reduce, type and the factors from the task.
    HalfSums(const Task& task, int ranks) noexcept;

    /// One rank's elements, times prescale. `in` holds as many as `partial`.
    void widen(const std::byte* in, std::span<float> partial) const noexcept;

    /// The results: divided by the number of ranks for average, times postscale, rounded. All NaNs
    /// are one: which of two is kept depends on the order, too.
    void finish(std::span<const float> partial, std::byte* out) const noexcept;

private:
    bool is_f16_;
    float prescale_;
    float postscale_;
    float divisor_;
};

/// `inout = in op inout`, for `count` floats.
using CombineFloats = void (*)(const float* in, float* inout, int count);

/// Average adds up; nothing for min and max. It lives as long as the program.
[[nodiscard]] CombineFloats float_combiner(ReduceOp op) noexcept;

}  // namespace hvd::coll
