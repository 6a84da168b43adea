// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-bench/data.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace hvd::bench {
namespace {

constexpr int kPeriod = 61;  // a prime: never in step with chunks

/// A whole number from 0 to 3, so that sums and products of a few ranks are exact in a byte; for
/// the average times the number of ranks, so that it is whole, too. For Adasum the same on all
/// ranks, since that of equal vectors is the vector.
std::int64_t element(const Shape& shape, int rank, std::uint64_t round, std::size_t index) {
    const auto who = shape.reduce == ReduceOp::adasum && reduces(shape.collective) ? 0 : rank;
    const auto mixed = (index + round + static_cast<std::uint64_t>(who) * 7) % kPeriod;
    if (shape.type == coll::DataType::boolean) {
        return static_cast<std::int64_t>(mixed & 1);
    }
    const auto small = static_cast<std::int64_t>(mixed & 3);
    return reduces(shape.collective) && shape.reduce == ReduceOp::average ? small * shape.size
                                                                          : small;
}

std::int64_t reduced(const Shape& shape, std::uint64_t round, std::size_t index) {
    std::int64_t value = element(shape, 0, round, index);
    for (int rank = 1; rank < shape.size; ++rank) {
        const auto next = element(shape, rank, round, index);
        switch (shape.reduce) {
            case ReduceOp::average:
            case ReduceOp::sum: value += next; break;
            case ReduceOp::min: value = std::min(value, next); break;
            case ReduceOp::max: value = std::max(value, next); break;
            case ReduceOp::product: value *= next; break;
            case ReduceOp::adasum: break;
        }
    }
    return shape.type == coll::DataType::boolean ? std::min<std::int64_t>(value, 1) : value;
}

template <class T>
void put(std::byte* place, T value) {
    std::memcpy(place, &value, sizeof value);
}

/// A small whole number as float16: exact up to 2048.
std::uint16_t half_bits(std::int64_t value) {
    if (value == 0) {
        return 0;
    }
    const int exponent = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value))) - 1;
    const auto fraction = static_cast<std::uint64_t>(value) - (std::uint64_t{1} << exponent);
    return static_cast<std::uint16_t>(((exponent + 15) << 10) |
                                      static_cast<int>(fraction << (10 - exponent)));
}

void store(coll::DataType type, std::byte* place, std::int64_t value) {
    using enum coll::DataType;
    switch (type) {
        case boolean:
        case u8: put(place, static_cast<std::uint8_t>(value)); break;
        case i8: put(place, static_cast<std::int8_t>(value)); break;
        case u16: put(place, static_cast<std::uint16_t>(value)); break;
        case i16: put(place, static_cast<std::int16_t>(value)); break;
        case u32: put(place, static_cast<std::uint32_t>(value)); break;
        case i32: put(place, static_cast<std::int32_t>(value)); break;
        case u64: put(place, static_cast<std::uint64_t>(value)); break;
        case i64: put(place, value); break;
        case f16: put(place, half_bits(value)); break;
        case bf16:
            put(place, static_cast<std::uint16_t>(
                           std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
            break;
        case f32: put(place, static_cast<float>(value)); break;
        case f64: put(place, static_cast<double>(value)); break;
    }
}

std::int64_t expected_sum(const Shape& shape, std::uint64_t round, std::size_t index) {
    const auto value = reduced(shape, round, index);
    return shape.reduce == ReduceOp::average ? value / shape.size : value;
}

/// What `output[index]` must be.
std::int64_t expected(const Shape& shape, std::uint64_t round, std::size_t index) {
    const auto count = std::max<std::size_t>(shape.count, 1);
    const auto share = std::max<std::size_t>(shape.count / static_cast<std::size_t>(shape.size), 1);
    const auto mine = static_cast<std::size_t>(shape.rank) * share;  // where this rank's begins
    switch (shape.collective) {
        case Collective::allreduce: return expected_sum(shape, round, index);
        case Collective::reducescatter: return expected_sum(shape, round, mine + index);
        case Collective::broadcast: return element(shape, shape.root, round, index);
        case Collective::allgather:
            return element(shape, static_cast<int>(index / count), round, index % count);
        case Collective::alltoall:
            return element(shape, static_cast<int>(index / share), round, mine + index % share);
        case Collective::barrier: break;
    }
    return 0;
}

}  // namespace

void fill_input(const Shape& shape, std::uint64_t round, std::span<std::byte> input) {
    const auto size = coll::size_of(shape.type);
    // One period by the rules, the rest as its copy: the benchmark would spend its time here.
    const auto first = std::min<std::size_t>(shape.count, kPeriod);
    for (std::size_t index = 0; index < first; ++index) {
        store(shape.type, input.data() + index * size, element(shape, shape.rank, round, index));
    }
    for (std::size_t done = first; done < shape.count;) {
        const auto next = std::min(done, shape.count - done);
        std::memcpy(input.data() + done * size, input.data(), next * size);
        done += next;
    }
}

std::size_t count_errors(const Shape& shape,
                         std::uint64_t round,
                         std::span<const std::byte> output) {
    const auto size = coll::size_of(shape.type);
    const auto count = output.size() / size;
    std::size_t errors = 0;
    std::array<std::byte, sizeof(std::uint64_t)> right{};
    for (std::size_t index = 0; index < count; ++index) {
        store(shape.type, right.data(), expected(shape, round, index));
        errors += std::memcmp(right.data(), output.data() + index * size, size) != 0 ? 1 : 0;
    }
    return errors;
}

}  // namespace hvd::bench
