// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/reduce/kernels.hpp"
#include "collectives/types.hpp"

#include <cstddef>

namespace hvd::coll {

/// Rounds f32 and f64 for the way to other ranks, and widens what comes back, with the arithmetic
/// of the kernels for GPUs: factors are applied in the tensor's own type.
class Narrowing {
public:
    /// `type` is f32 or f64, and `wire` not its own.
    Narrowing(DataType type, Wire wire) noexcept;

    /// Each value times `factor`, rounded to nearest even.
    void narrow(const std::byte* in, std::size_t count, double factor, std::byte* out) const;

    /// Each value divided by `divisor`, then times `factor`.
    void widen(const std::byte* in,
               std::size_t count,
               int divisor,
               double factor,
               std::byte* out) const;

private:
    bool is_f64_;
    bool is_f16_;
    kernels::NarrowingKernels vector_;  // of f32
};

}  // namespace hvd::coll
