// SPDX-License-Identifier: Apache-2.0
//
// Data whose results are exact in every type: small whole numbers, so that a test compares bits and
// no rounding hides a mistake.
#pragma once

#include "collectives/types.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvd::test {

inline constexpr std::array kAllTypes{
    coll::DataType::boolean, coll::DataType::u8,  coll::DataType::i8,   coll::DataType::u16,
    coll::DataType::i16,     coll::DataType::u32, coll::DataType::i32,  coll::DataType::u64,
    coll::DataType::i64,     coll::DataType::f16, coll::DataType::bf16, coll::DataType::f32,
    coll::DataType::f64};

inline constexpr std::array kAllReduceOps{coll::ReduceOp::average, coll::ReduceOp::sum,
                                          coll::ReduceOp::min, coll::ReduceOp::max,
                                          coll::ReduceOp::product};

/// Elements as whole numbers, in any type.
[[nodiscard]] std::int64_t load(coll::DataType type, const std::byte* element);
void store(coll::DataType type, std::byte* element, std::int64_t value);

/// The inputs of one kind of allreduce in tests. The factors are powers of two.
struct ExactCase {
    coll::DataType type = coll::DataType::f32;
    coll::ReduceOp op = coll::ReduceOp::sum;
    int size = 1;
    double prescale = 1;
    double postscale = 1;
    std::uint64_t seed = 0;
};

/// Rank `rank`'s element `index`: exact in the type, and so is every partial result.
[[nodiscard]] std::int64_t exact_input(const ExactCase& what, int rank, std::size_t index);

/// The exact result of allreduce for element `index`.
[[nodiscard]] std::int64_t exact_result(const ExactCase& what, std::size_t index);

/// `count` elements from number `first` on.
[[nodiscard]] std::vector<std::byte> exact_inputs(const ExactCase& what,
                                                  int rank,
                                                  std::size_t count,
                                                  std::size_t first = 0);

/// Empty when the elements are the results from number `first` on; else the first difference.
[[nodiscard]] std::string differs_from_result(const ExactCase& what,
                                              const std::byte* elements,
                                              std::size_t count,
                                              std::size_t first = 0);

/// Bytes that tell rank and position, for allgather and broadcast.
[[nodiscard]] std::byte pattern(int rank, std::size_t index, std::uint64_t seed = 0);

}  // namespace hvd::test
