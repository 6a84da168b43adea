// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/reduce/half_sums.hpp"
#include "collectives/reduce/reducer.hpp"
#include "collectives/types.hpp"

#include <cstddef>
#include <optional>
#include <span>

namespace hvd::coll {

/// The arithmetic of one allreduce in two stages: inputs to partial results, and these to the
/// result. The result is that of Reducer but for the order of additions: f16 and bf16 are added up
/// in f32 and rounded once, averages divide once.
class TwoStageReducer {
public:
    /// Not for Adasum, nor for sums of integers that factors make exact beyond their own width.
    [[nodiscard]] static bool can(const Task& task) noexcept;

    /// `can` the task. `ranks` have inputs, `first` of them for each partial result.
    TwoStageReducer(const Task& task, int first, int ranks);

    /// Bytes of an element of a partial result.
    [[nodiscard]] std::size_t partial_bytes() const noexcept { return partial_bytes_; }

    /// The partial result of `count` elements of each input.
    void add_up(std::span<const std::byte* const> inputs,
                std::byte* partial,
                std::size_t count) const;

    /// The result of `count` elements of each partial result. The first one is overwritten where
    /// `out` has a narrower type.
    void finish(std::span<std::byte* const> partials, std::byte* out, std::size_t count) const;

private:
    std::size_t element_bytes_;
    std::size_t partial_bytes_;
    std::optional<HalfSums> halves_;
    CombineFloats combine_ = nullptr;
    Reducer first_;
    Reducer second_;
};

}  // namespace hvd::coll
