// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/narrowing.hpp"

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace hvd::coll {
namespace {

using Halves = std::vector<std::uint16_t>;

template <class T>
constexpr DataType kType = sizeof(T) == 4 ? DataType::f32 : DataType::f64;

template <class T>
Halves narrowed(Wire wire, const std::vector<T>& values, double factor = 1) {
    Halves halves(values.size());
    Narrowing(kType<T>, wire)
        .narrow(reinterpret_cast<const std::byte*>(values.data()), values.size(), factor,
                reinterpret_cast<std::byte*>(halves.data()));
    return halves;
}

template <class T>
std::vector<T> widened(Wire wire, const Halves& halves, int divisor = 1, double factor = 1) {
    std::vector<T> values(halves.size());
    Narrowing(kType<T>, wire)
        .widen(reinterpret_cast<const std::byte*>(halves.data()), halves.size(), divisor, factor,
               reinterpret_cast<std::byte*>(values.data()));
    return values;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEMPLATE_TEST_CASE("values are scaled, then rounded once to nearest even", "", float, double) {
    const std::vector<TestType> values{1, TestType(1 + 0x1p-12), TestType(1 + 3 * 0x1p-11), -65520,
                                       TestType(0x1p-25)};

    CHECK(narrowed(Wire::f16, values) == Halves{0x3c00, 0x3c00, 0x3c02, 0xfc00, 0});
    CHECK(narrowed(Wire::bf16, values) == Halves{0x3f80, 0x3f80, 0x3f80, 0xc780, 0x3300});
    // A factor brings values into the range of a half.
    CHECK(narrowed(Wire::f16, values, 0.5) == Halves{0x3800, 0x3800, 0x3802, 0xf7ff + 1, 0});
    CHECK(narrowed(Wire::f16, std::vector<TestType>{TestType(0x1p-25)}, 4) == Halves{0x0002});
}

TEMPLATE_TEST_CASE("what has travelled is divided and scaled in the tensor's type",
                   "",
                   float,
                   double) {
    const auto third = TestType(1) / TestType(3);

    CHECK(widened<TestType>(Wire::f16, {0x3c00, 0xc000, 0x7c00}, 3) ==
          std::vector<TestType>{third, -2 * third, TestType(kInfinity)});
    CHECK(widened<TestType>(Wire::bf16, {0x3f80, 0xff80}, 3, 0.1) ==
          std::vector<TestType>{third * TestType(0.1), TestType(-kInfinity)});
    CHECK(std::isnan(widened<TestType>(Wire::f16, {0x7e00}).front()));
}

/// Vectors take as many as fill them, and the rest is rounded one by one.
TEST_CASE("a value is rounded alike wherever it is among others") {
    const auto wire = GENERATE(Wire::f16, Wire::bf16);
    std::mt19937 random(7);
    std::vector<float> values(1000);
    for (auto& value : values) {
        value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    }
    const auto all = narrowed(wire, values, 0.7);
    const auto back = widened<float>(wire, all, 3, 0.7);
    for (std::size_t index = 0; index < values.size(); ++index) {
        const auto one = narrowed(wire, std::vector{values[index]}, 0.7);
        CHECK(all[index] == one.front());
        const auto wide = widened<float>(wire, one, 3, 0.7).front();
        CHECK(std::bit_cast<std::uint32_t>(back[index]) == std::bit_cast<std::uint32_t>(wide));
    }
}

TEST_CASE("a factor that a float cannot hold is one of a double") {
    CHECK(narrowed(Wire::f16, std::vector{1e-60}, 1e60) == Halves{0x3c00});
    CHECK(widened<double>(Wire::bf16, {0x3f80}, 1, 1e60) == std::vector{1e60});
}

TEST_CASE("tensors at odd addresses are rounded too") {
    std::vector<std::byte> memory(13);
    const float value = 2;
    std::memcpy(memory.data() + 1, &value, sizeof value);

    Narrowing(DataType::f32, Wire::f16).narrow(memory.data() + 1, 1, 1, memory.data() + 5);
    Narrowing(DataType::f32, Wire::f16).widen(memory.data() + 5, 1, 1, 1, memory.data() + 9);

    float result = 0;
    std::memcpy(&result, memory.data() + 9, sizeof result);
    CHECK(result == value);
}

}  // namespace hvd::coll
