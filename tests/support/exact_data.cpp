// SPDX-License-Identifier: Apache-2.0
#include "tests/support/exact_data.hpp"

#include "collectives/reduce/half.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace hvd::test {
namespace {

using coll::DataType;
using coll::ReduceOp;

template <class T>
[[nodiscard]] std::int64_t load_as(const std::byte* element) {
    T value{};
    std::memcpy(&value, element, sizeof value);
    return static_cast<std::int64_t>(value);
}

template <class T>
void store_as(std::byte* element, std::int64_t value) {
    const auto stored = static_cast<T>(value);
    std::memcpy(element, &stored, sizeof stored);
}

[[nodiscard]] bool is_unsigned(DataType type) {
    return type == DataType::u8 || type == DataType::u16 || type == DataType::u32 ||
           type == DataType::u64;
}

[[nodiscard]] bool is_float(DataType type) {
    return type >= DataType::f16;
}

/// SplitMix64: neighbours in rank, index and seed give unrelated numbers.
[[nodiscard]] std::uint64_t mix(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15U;
    value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31U);
}

[[nodiscard]] std::uint64_t draw(std::uint64_t seed, int rank, std::size_t index) {
    return mix(mix(seed * 131 + static_cast<std::uint64_t>(rank)) + index);
}

[[nodiscard]] std::int64_t combine(ReduceOp op, DataType type, std::int64_t a, std::int64_t b) {
    if (type == DataType::boolean) {
        const bool is_and = op == ReduceOp::min || op == ReduceOp::product;
        return is_and ? std::min(a, b) : std::max(a, b);
    }
    switch (op) {
        case ReduceOp::average:
        case ReduceOp::sum: return a + b;
        case ReduceOp::min: return std::min(a, b);
        case ReduceOp::max: return std::max(a, b);
        case ReduceOp::product: return a * b;
        case ReduceOp::adasum:
        case ReduceOp::adasum_across_hosts: break;  // no whole numbers
    }
    return 0;
}

}  // namespace

std::int64_t load(DataType type, const std::byte* element) {
    switch (type) {
        case DataType::boolean:
        case DataType::u8: return load_as<std::uint8_t>(element);
        case DataType::i8: return load_as<std::int8_t>(element);
        case DataType::u16: return load_as<std::uint16_t>(element);
        case DataType::i16: return load_as<std::int16_t>(element);
        case DataType::u32: return load_as<std::uint32_t>(element);
        case DataType::i32: return load_as<std::int32_t>(element);
        case DataType::u64: return load_as<std::uint64_t>(element);
        case DataType::i64: return load_as<std::int64_t>(element);
        case DataType::f16: {
            std::uint16_t bits = 0;
            std::memcpy(&bits, element, sizeof bits);
            return static_cast<std::int64_t>(coll::f16_to_f32(bits));
        }
        case DataType::bf16: {
            std::uint16_t bits = 0;
            std::memcpy(&bits, element, sizeof bits);
            return static_cast<std::int64_t>(coll::bf16_to_f32(bits));
        }
        case DataType::f32: return load_as<float>(element);
        case DataType::f64: return load_as<double>(element);
    }
    return 0;
}

void store(DataType type, std::byte* element, std::int64_t value) {
    switch (type) {
        case DataType::boolean:
        case DataType::u8: return store_as<std::uint8_t>(element, value);
        case DataType::i8: return store_as<std::int8_t>(element, value);
        case DataType::u16: return store_as<std::uint16_t>(element, value);
        case DataType::i16: return store_as<std::int16_t>(element, value);
        case DataType::u32: return store_as<std::uint32_t>(element, value);
        case DataType::i32: return store_as<std::int32_t>(element, value);
        case DataType::u64: return store_as<std::uint64_t>(element, value);
        case DataType::i64: return store_as<std::int64_t>(element, value);
        case DataType::f16: {
            const auto bits = coll::f32_to_f16(static_cast<float>(value));
            std::memcpy(element, &bits, sizeof bits);
            return;
        }
        case DataType::bf16: {
            const auto bits = coll::f32_to_bf16(static_cast<float>(value));
            std::memcpy(element, &bits, sizeof bits);
            return;
        }
        case DataType::f32: return store_as<float>(element, value);
        case DataType::f64: return store_as<double>(element, value);
    }
}

std::int64_t exact_input(const ExactCase& what, int rank, std::size_t index) {
    const std::uint64_t number = draw(what.seed, rank, index);
    if (what.type == DataType::boolean) {
        return static_cast<std::int64_t>(number % 4 == 0);
    }
    std::int64_t value = 0;
    if (what.op == ReduceOp::product) {
        value = rank < 3 ? 1 + static_cast<std::int64_t>(number % 2) : 1;  // products up to 8
    } else if (is_unsigned(what.type)) {
        value = static_cast<std::int64_t>(number % 9);
    } else {
        value = static_cast<std::int64_t>(number % 17) - 8;
    }
    if (what.op == ReduceOp::average && is_float(what.type)) {
        value = (value % 3) * what.size;  // so that the quotient is whole
    }
    // A prescale of 1/2 or 1/4 must leave a whole number.
    return what.prescale < 1 ? static_cast<std::int64_t>(static_cast<double>(value) / what.prescale)
                             : value;
}

std::int64_t exact_result(const ExactCase& what, std::size_t index) {
    const bool is_boolean = what.type == DataType::boolean;
    const auto scaled = [&](int rank) {
        const auto value = exact_input(what, rank, index);
        return is_boolean ? value
                          : static_cast<std::int64_t>(static_cast<double>(value) * what.prescale);
    };
    std::int64_t result = scaled(0);
    for (int rank = 1; rank < what.size; ++rank) {
        result = combine(what.op, what.type, result, scaled(rank));
    }
    if (is_boolean) {
        return result;
    }
    if (what.postscale != 1) {
        const int divisor = what.op == ReduceOp::average ? what.size : 1;
        return static_cast<std::int64_t>(static_cast<double>(result) * what.postscale / divisor);
    }
    return what.op == ReduceOp::average ? result / what.size : result;
}

std::vector<std::byte> exact_inputs(const ExactCase& what,
                                    int rank,
                                    std::size_t count,
                                    std::size_t first) {
    const std::size_t bytes = coll::size_of(what.type);
    std::vector<std::byte> elements(count * bytes);
    for (std::size_t index = 0; index < count; ++index) {
        store(what.type, &elements[index * bytes], exact_input(what, rank, first + index));
    }
    return elements;
}

std::string differs_from_result(const ExactCase& what,
                                const std::byte* elements,
                                std::size_t count,
                                std::size_t first) {
    const std::size_t bytes = coll::size_of(what.type);
    std::vector<std::byte> expected(count * bytes);
    for (std::size_t index = 0; index < count; ++index) {
        store(what.type, &expected[index * bytes], exact_result(what, first + index));
    }
    // As bits, so that results that wrap compare equal.
    // The faster one first; it must not get the null pointer of no elements.
    if (count == 0 || std::memcmp(expected.data(), elements, expected.size()) == 0) {
        return {};
    }
    const auto differs = std::mismatch(expected.begin(), expected.end(), elements).first;
    const auto index = static_cast<std::size_t>(differs - expected.begin()) / bytes;
    return std::string(coll::to_string(what.op)) + " of " +
           std::string(coll::to_string(what.type)) + ", element " + std::to_string(index) + " of " +
           std::to_string(count) + ": " +
           std::to_string(load(what.type, elements + index * bytes)) + " instead of " +
           std::to_string(load(what.type, &expected[index * bytes]));
}

std::byte pattern(int rank, std::size_t index, std::uint64_t seed) {
    return static_cast<std::byte>(draw(seed, rank, index) & 0xffU);
}

}  // namespace hvd::test
