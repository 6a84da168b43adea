// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/types.hpp"

#include <cstddef>

namespace hvd::coll {

/// Sums over two vectors, or over a part of both: those of the parts add up to those of the whole.
struct AdasumDots {
    double ab = 0;
    double aa = 0;
    double bb = 0;
};

/// The arithmetic of Adasum (Maleki et al., "Scaling Distributed Training with Adaptive Summation",
/// 2020): two gradients a and b become
///
///     (1 - a.b / (2 a.a)) a  +  (1 - a.b / (2 b.b)) b
///
/// which is their sum where they are orthogonal and their average where they are equal. A factor
/// whose denominator is 0 is 1. The dot products are float64. Between its combinations a gradient
/// is kept as float32, or as float64 where the tensor is: f16 and bf16 are rounded once, at the
/// end.
class Adasum {
public:
    /// Takes type and factors from the task. Throws Exception (unsupported) for types other than
    /// f16, bf16, f32 and f64.
    explicit Adasum(const Task& task);

    /// Bytes of an element between `widen` and `narrow`.
    [[nodiscard]] std::size_t work_bytes() const noexcept {
        return type_ == DataType::f64 ? sizeof(double) : sizeof(float);
    }

    /// Inputs, times prescale; results, times postscale.
    void widen(const std::byte* in, std::byte* work, std::size_t count) const noexcept;
    void narrow(const std::byte* work, std::byte* out, std::size_t count) const noexcept;

    [[nodiscard]] AdasumDots dots(const std::byte* a,
                                  const std::byte* b,
                                  std::size_t count) const noexcept;
    /// Replaces a gradient by its average with `others` more, which follow each other in memory.
    void average(std::byte* own,
                 const std::byte* more,
                 std::size_t others,
                 std::size_t count) const noexcept;

    /// `out` may be `a` or `b`.
    void combine(const AdasumDots& dots,
                 const std::byte* a,
                 const std::byte* b,
                 std::byte* out,
                 std::size_t count) const noexcept;

private:
    DataType type_;
    double prescale_;
    double postscale_;
};

}  // namespace hvd::coll
