// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of allreduce on the CPU, in one place, so that every backend and every path gives
// the same bits.
#pragma once

#include "collectives/reduce/kernels.hpp"
#include "collectives/types.hpp"

#include <cstddef>
#include <span>

namespace hvd::coll {

/// The arithmetic of one allreduce, with the fastest loops of this CPU.
///
/// Every element is  finish(scaled in[0] op scaled in[1] op ...), in the order of the inputs.
/// floats    f16 and bf16 are widened to f32 first and rounded once at the end, to nearest even.
///           Inputs are multiplied by prescale; the result is divided by the task's
///           divisor or, where it has none, the number of ranks (average), then multiplied by
///           postscale, all in f32 (f64 for f64). Of min and max, a NaN wins.
/// integers  sum and product wrap in the type's own width. With a factor other than 1, or for
///           average, sums are exact (64 bits, or 128 for 64-bit types): inputs times prescale are
///           cut towards zero, the sum is divided once, towards zero, or multiplied by postscale
///           and divided in f64 and cut towards zero; what does not fit saturates.
/// bool      sum and max are "or", product and min are "and"; factors mean nothing.
class Reducer {
public:
    /// Takes reduce, type, divisor and the factors from the task. Throws Exception (unsupported)
    /// for an average of bool and for adasum.
    Reducer(const Task& task, int ranks);

    /// One input per rank, in rank order. Every output gets the same values; it may be an input,
    /// but must not overlap one in another way. The first `taken` outputs lie in cache lines that
    /// another CPU has written: they are fetched for writing ahead of time.
    void run(std::span<const std::byte* const> inputs,
             std::span<std::byte* const> outputs,
             std::size_t count,
             int taken = 0) const;

private:
    kernels::ReduceArgs args_;
    kernels::Kernel generic_;
    kernels::VectorKernel vector_;
    std::size_t element_bytes_;
};

}  // namespace hvd::coll
