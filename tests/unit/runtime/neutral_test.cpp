// SPDX-License-Identifier: Apache-2.0
//
// The contribution of a rank that has joined, with the loops that reduce it.
#include "runtime/tensor/neutral.hpp"

#include "collectives/reduce/half.hpp"
#include "collectives/reduce/reducer.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

using hvd::coll::DataType;
using hvd::coll::ReduceOp;
using hvd::rt::fill_neutral;

namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& bytes, std::initializer_list<T> values) {
    for (const T value : values) {
        const auto* const from = reinterpret_cast<const std::byte*>(&value);
        bytes.insert(bytes.end(), from, from + sizeof value);
    }
}

template <class T>
Bytes extremes() {
    using Limits = std::numeric_limits<T>;
    Bytes bytes;
    append<T>(bytes, {T{0}, T{1}, T{7}, Limits::lowest(), Limits::max()});
    if constexpr (Limits::has_infinity) {
        append<T>(bytes, {T(-2.5), Limits::infinity(), -Limits::infinity(), Limits::min()});
    }
    return bytes;
}

Bytes halves(std::uint16_t (*convert)(float) noexcept) {
    const auto infinity = std::numeric_limits<float>::infinity();
    Bytes bytes;
    for (const float value : {0.0F, 1.0F, -2.5F, 60'000.0F, -60'000.0F, infinity, -infinity}) {
        append<std::uint16_t>(bytes, {convert(value)});
    }
    return bytes;
}

/// Values of the type, the ends of its range among them.
Bytes samples(DataType type) {
    switch (type) {
        case DataType::boolean: return {std::byte{0}, std::byte{1}};
        case DataType::u8: return extremes<std::uint8_t>();
        case DataType::i8: return extremes<std::int8_t>();
        case DataType::u16: return extremes<std::uint16_t>();
        case DataType::i16: return extremes<std::int16_t>();
        case DataType::u32: return extremes<std::uint32_t>();
        case DataType::i32: return extremes<std::int32_t>();
        case DataType::u64: return extremes<std::uint64_t>();
        case DataType::i64: return extremes<std::int64_t>();
        case DataType::f16: return halves(hvd::coll::f32_to_f16);
        case DataType::bf16: return halves(hvd::coll::f32_to_bf16);
        case DataType::f32: return extremes<float>();
        case DataType::f64: return extremes<double>();
    }
    return {};
}

}  // namespace

TEST_CASE("what is neutral leaves every value of every type as it is") {
    const auto op =
        GENERATE(ReduceOp::average, ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product);
    const auto type = static_cast<DataType>(GENERATE(range(0, hvd::coll::kDataTypes)));
    if (op == ReduceOp::average && type == DataType::boolean) {
        return;  // refused
    }
    CAPTURE(to_string(op), to_string(type));
    const auto values = samples(type);
    Bytes neutral(values.size(), std::byte{0xa5});
    fill_neutral(op, type, neutral);
    const hvd::coll::Task task{.reduce = op, .type = type, .divisor = 1};
    const bool is_first = GENERATE(false, true);

    Bytes result(values.size());
    const std::array<const std::byte*, 2> inputs{is_first ? neutral.data() : values.data(),
                                                 is_first ? values.data() : neutral.data()};
    const std::array<std::byte*, 1> outputs{result.data()};
    hvd::coll::Reducer(task, 2).run(inputs, outputs, values.size() / size_of(type));

    CHECK(result == values);
}

TEST_CASE("a gradient of zeros is neutral for adasum") {
    const auto type = GENERATE(DataType::f16, DataType::bf16, DataType::f32, DataType::f64);
    Bytes memory(24, std::byte{1});

    fill_neutral(ReduceOp::adasum, type, memory);

    CHECK(memory == Bytes(24));
}

TEST_CASE("nothing is written behind the memory") {
    std::array<std::byte, 8> memory{};
    fill_neutral(ReduceOp::product, DataType::i32, std::span(memory).first(4));
    fill_neutral(ReduceOp::product, DataType::i32, {});

    CHECK(memory[0] == std::byte{1});
    CHECK(memory[4] == std::byte{0});
}
