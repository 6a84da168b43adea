// SPDX-License-Identifier: Apache-2.0
//
// float16 and bfloat16 as bits, converted without hardware: nearest even, subnormals kept, a NaN
// stays a (quiet) NaN. The same results as F16C's.
#pragma once

#include <bit>
#include <cstdint>

namespace hvd::coll {

[[nodiscard]] constexpr float bf16_to_f32(std::uint16_t bits) noexcept {
    return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

[[nodiscard]] constexpr std::uint16_t f32_to_bf16(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) {
        return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
    }
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

[[nodiscard]] constexpr float f16_to_f32(std::uint16_t bits) noexcept {
    const std::uint32_t sign = (std::uint32_t{bits} & 0x8000U) << 16U;
    const std::uint32_t magnitude = bits & 0x7fffU;
    if (magnitude >= 0x7c00U) {  // infinity, or a NaN that becomes quiet
        const std::uint32_t quiet = magnitude > 0x7c00U ? 0x00400000U : 0;
        return std::bit_cast<float>(sign | 0x7f800000U | quiet | ((magnitude & 0x3ffU) << 13U));
    }
    if (magnitude >= 0x0400U) {  // normal: move the exponent's bias from 15 to 127
        return std::bit_cast<float>(sign | ((magnitude << 13U) + (112U << 23U)));
    }
    // Subnormal: that many times 2^-24, which float32 holds exactly.
    const float value = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

[[nodiscard]] constexpr std::uint16_t f32_to_f16(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    std::uint32_t half = 0;
    if (magnitude > 0x7f800000U) {
        half = 0x7e00U | ((magnitude >> 13U) & 0x3ffU);
    } else if (magnitude >= 0x47800000U) {  // 65536 and more
        half = 0x7c00U;
    } else if (magnitude < 0x38800000U) {  // less than 2^-14: the sum rounds to multiples of 2^-24
        const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
        half = std::bit_cast<std::uint32_t>(rounded) - std::bit_cast<std::uint32_t>(0.5F);
    } else {
        const std::uint32_t odd = (magnitude >> 13U) & 1U;
        half = (magnitude - (112U << 23U) + 0xfffU + odd) >> 13U;
    }
    return static_cast<std::uint16_t>(sign | half);
}

}  // namespace hvd::coll
