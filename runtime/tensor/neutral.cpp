// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/neutral.hpp"

#include <cstdint>
#include <cstring>
#include <limits>

namespace hvd::rt {
namespace {

using coll::DataType;
using coll::ReduceOp;

template <class T>
void fill(T value, std::span<std::byte> memory) {
    for (std::size_t at = 0; at + sizeof value <= memory.size(); at += sizeof value) {
        std::memcpy(memory.data() + at, &value, sizeof value);
    }
}

template <class T>
void fill_number(ReduceOp op, std::span<std::byte> memory) {
    using Limits = std::numeric_limits<T>;
    switch (op) {
        case ReduceOp::average:
        case ReduceOp::sum:
        case ReduceOp::adasum:
        case ReduceOp::adasum_across_hosts: fill(T{0}, memory); break;
        case ReduceOp::product: fill(T{1}, memory); break;
        case ReduceOp::min:
            fill(Limits::has_infinity ? Limits::infinity() : Limits::max(), memory);
            break;
        case ReduceOp::max:
            fill(Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::lowest(),
                 memory);
            break;
    }
}

/// Of a 16-bit float by its bits.
struct HalfBits {
    std::uint16_t one;
    std::uint16_t infinity;
};

void fill_half(ReduceOp op, HalfBits bits, std::span<std::byte> memory) {
    constexpr std::uint16_t kSign = 0x8000;
    switch (op) {
        case ReduceOp::average:
        case ReduceOp::sum:
        case ReduceOp::adasum:
        case ReduceOp::adasum_across_hosts: fill(std::uint16_t{0}, memory); break;
        case ReduceOp::product: fill(bits.one, memory); break;
        case ReduceOp::min: fill(bits.infinity, memory); break;
        case ReduceOp::max: fill(static_cast<std::uint16_t>(bits.infinity | kSign), memory); break;
    }
}

}  // namespace

void fill_neutral(ReduceOp op, DataType type, std::span<std::byte> memory) {
    switch (type) {
        case DataType::boolean: {
            const bool is_and = op == ReduceOp::product || op == ReduceOp::min;
            fill(std::uint8_t{is_and ? std::uint8_t{1} : std::uint8_t{0}}, memory);
            break;
        }
        case DataType::u8: fill_number<std::uint8_t>(op, memory); break;
        case DataType::i8: fill_number<std::int8_t>(op, memory); break;
        case DataType::u16: fill_number<std::uint16_t>(op, memory); break;
        case DataType::i16: fill_number<std::int16_t>(op, memory); break;
        case DataType::u32: fill_number<std::uint32_t>(op, memory); break;
        case DataType::i32: fill_number<std::int32_t>(op, memory); break;
        case DataType::u64: fill_number<std::uint64_t>(op, memory); break;
        case DataType::i64: fill_number<std::int64_t>(op, memory); break;
        case DataType::f16: fill_half(op, {.one = 0x3c00, .infinity = 0x7c00}, memory); break;
        case DataType::bf16: fill_half(op, {.one = 0x3f80, .infinity = 0x7f80}, memory); break;
        case DataType::f32: fill_number<float>(op, memory); break;
        case DataType::f64: fill_number<double>(op, memory); break;
    }
}

}  // namespace hvd::rt
