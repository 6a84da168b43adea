// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/half.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace hvd::coll {
namespace {

TEST_CASE("float16 and float32 agree on every value") {
    for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        const float value = f16_to_f32(half);
        if (std::isnan(value)) {
            REQUIRE(std::isnan(f16_to_f32(f32_to_f16(value))));
            continue;
        }
        REQUIRE(f32_to_f16(value) == half);
    }
}

TEST_CASE("float16 has the values that IEEE 754 says") {
    CHECK(f16_to_f32(0x3c00) == 1.0F);
    CHECK(f16_to_f32(0xc000) == -2.0F);
    CHECK(f16_to_f32(0x7bff) == 65504.0F);
    CHECK(f16_to_f32(0x0400) == 0x1p-14F);
    CHECK(f16_to_f32(0x0001) == 0x1p-24F);
    CHECK(f16_to_f32(0x83ff) == -1023 * 0x1p-24F);
    CHECK(f16_to_f32(0xfc00) == -std::numeric_limits<float>::infinity());
    CHECK(std::signbit(f16_to_f32(0x8000)));
}

TEST_CASE("float32 rounds to the nearest float16, ties to even") {
    CHECK(f32_to_f16(1.0F + 0x1p-11F) == 0x3c00);      // tie, down to even
    CHECK(f32_to_f16(1.0F + 3 * 0x1p-11F) == 0x3c02);  // tie, up to even
    CHECK(f32_to_f16(1.0F + 0x1p-11F + 0x1p-20F) == 0x3c01);
    CHECK(f32_to_f16(65519.0F) == 0x7bff);
    CHECK(f32_to_f16(65520.0F) == 0x7c00);  // tie with infinity, to even
    CHECK(f32_to_f16(1e9F) == 0x7c00);
    CHECK(f32_to_f16(0x1p-25F) == 0x0000);  // tie, down to zero
    CHECK(f32_to_f16(0x1.8p-25F) == 0x0001);
    CHECK(f32_to_f16(3 * 0x1p-25F) == 0x0002);  // tie, up to even
    CHECK(f32_to_f16(0x1.ffep-15F) == 0x0400);  // up to the smallest normal
    CHECK(f32_to_f16(-1e-30F) == 0x8000);
}

TEST_CASE("float32 rounds to the nearest bfloat16, ties to even") {
    CHECK(f32_to_bf16(1.0F) == 0x3f80);
    CHECK(f32_to_bf16(1.0F + 0x1p-8F) == 0x3f80);
    CHECK(f32_to_bf16(1.0F + 3 * 0x1p-8F) == 0x3f82);
    CHECK(f32_to_bf16(1.0F + 0x1p-8F + 0x1p-20F) == 0x3f81);
    CHECK(f32_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
    CHECK(std::isnan(bf16_to_f32(f32_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
    CHECK(bf16_to_f32(0xc040) == -3.0F);
}

}  // namespace
}  // namespace hvd::coll
