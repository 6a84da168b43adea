// SPDX-License-Identifier: Apache-2.0
//
// Every type and operation, in blocks that stay in the first-level cache: one loop over the block
// for each input and each output, simple enough for the compiler to vectorise.
#include "collectives/reduce/half.hpp"
#include "collectives/reduce/kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace hvd::coll::kernels {
namespace {

constexpr std::size_t kBlock = 512;  // elements

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

/// Holds the sum of as many T as there can be ranks.
template <class T>
using Wide =
    std::conditional_t<sizeof(T) < 8,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, Int128, UInt128>>;

/// At least 32 bits, so that no promotion to int overflows.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) < 8, std::uint32_t, std::uint64_t>;

template <class T>
[[nodiscard]] T saturate(double value) noexcept {
    using Limits = std::numeric_limits<T>;
    // Limits::max() of 64 bits rounds up to a power of two, which is out of range itself.
    if (value >= static_cast<double>(Limits::max())) {
        return Limits::max();
    }
    if (value <= static_cast<double>(Limits::min())) {
        return Limits::min();
    }
    return value == value ? static_cast<T>(value) : T{0};
}

// How each element type is read, gathered and written. `Sum` is what accumulates.

struct Float32 {
    using Stored = float;
    using Sum = float;
    static float load(float value) noexcept { return value; }
    static float store(float value) noexcept { return value; }
};
struct Float64 {
    using Stored = double;
    using Sum = double;
    static double load(double value) noexcept { return value; }
    static double store(double value) noexcept { return value; }
};
struct Float16 {
    using Stored = std::uint16_t;
    using Sum = float;
    static float load(std::uint16_t value) noexcept { return f16_to_f32(value); }
    static std::uint16_t store(float value) noexcept { return f32_to_f16(value); }
};
struct BFloat16 {
    using Stored = std::uint16_t;
    using Sum = float;
    static float load(std::uint16_t value) noexcept { return bf16_to_f32(value); }
    static std::uint16_t store(float value) noexcept { return f32_to_bf16(value); }
};

template <class T>
[[nodiscard]] bool is_nan(T value) noexcept {
    if constexpr (std::is_floating_point_v<T>) {
        return std::isnan(value);
    } else {
        return false;
    }
}

template <ReduceOp kOp, class T>
[[nodiscard]] T combine(T sum, T value) noexcept {
    if constexpr (kOp == ReduceOp::min) {
        return value < sum || is_nan(value) ? value : sum;  // a NaN wins
    } else if constexpr (kOp == ReduceOp::max) {
        return value > sum || is_nan(value) ? value : sum;
    } else if constexpr (std::is_integral_v<T> && sizeof(T) <= 8) {
        using U = Wrapping<T>;
        return kOp == ReduceOp::product
                   ? static_cast<T>(static_cast<U>(sum) * static_cast<U>(value))
                   : static_cast<T>(static_cast<U>(sum) + static_cast<U>(value));
    } else if constexpr (kOp == ReduceOp::product) {
        return sum * value;
    } else {
        return sum + value;
    }
}

/// A policy is `Stored`, `Sum`, `load(args, Stored)`, `combine(Sum, Sum)` and `store(args, Sum)`.
/// This puts the combination of all inputs' elements [start, start + size) into `sum`.
template <class Policy>
void combine_block(const ReduceArgs& args,
                   std::size_t start,
                   std::size_t size,
                   typename Policy::Sum* sum) {
    for (int rank = 0; rank < args.input_count; ++rank) {
        const auto* input =
            reinterpret_cast<const typename Policy::Stored*>(args.inputs[rank]) + start;
        if (rank == 0) {
            for (std::size_t index = 0; index < size; ++index) {
                sum[index] = Policy::load(args, input[index]);
            }
        } else {
            for (std::size_t index = 0; index < size; ++index) {
                sum[index] = Policy::combine(sum[index], Policy::load(args, input[index]));
            }
        }
    }
}

template <class Policy>
void reduce_blocks(const ReduceArgs& args) {
    using Stored = typename Policy::Stored;
    std::array<typename Policy::Sum, kBlock> sums;  // NOLINT: filled below, block by block
    auto* const sum = sums.data();
    for (std::size_t start = args.first; start < args.count; start += kBlock) {
        const std::size_t size = args.count - start < kBlock ? args.count - start : kBlock;
        combine_block<Policy>(args, start, size, sum);
        for (int target = 0; target < args.output_count; ++target) {
            auto* output = reinterpret_cast<Stored*>(args.outputs[target]) + start;
            if (target != 0) {
                std::memcpy(output, args.outputs[0] + start * sizeof(Stored),
                            size * sizeof(Stored));
                continue;
            }
            for (std::size_t index = 0; index < size; ++index) {
                output[index] = Policy::store(args, sum[index]);
            }
        }
    }
}

template <class Element, ReduceOp kOp, bool kIsScaled>
struct FloatPolicy {
    using Stored = typename Element::Stored;
    using Sum = typename Element::Sum;

    static Sum load(const ReduceArgs& args, Stored value) noexcept {
        const Sum loaded = Element::load(value);
        return kIsScaled ? loaded * static_cast<Sum>(args.prescale) : loaded;
    }
    static Sum combine(Sum sum, Sum value) noexcept { return kernels::combine<kOp>(sum, value); }
    static Stored store(const ReduceArgs& args, Sum sum) noexcept {
        if constexpr (kOp == ReduceOp::average) {
            sum = sum / static_cast<Sum>(args.divisor);
        }
        return Element::store(kIsScaled ? sum * static_cast<Sum>(args.postscale) : sum);
    }
};

/// Results wrap in the type's own width.
template <class T, ReduceOp kOp>
struct PlainPolicy {
    using Stored = T;
    using Sum = T;

    static T load(const ReduceArgs&, T value) noexcept { return value; }
    static T combine(T sum, T value) noexcept { return kernels::combine<kOp>(sum, value); }
    static T store(const ReduceArgs&, T sum) noexcept { return sum; }
};

/// Scaled inputs are integers again, cut towards zero. Sums are exact until the one division or
/// multiplication at the end; what does not fit then becomes the nearest value that does.
template <class T, ReduceOp kOp>
struct ScaledPolicy {
    using Stored = T;
    using Sum = std::conditional_t<kOp == ReduceOp::sum || kOp == ReduceOp::average, Wide<T>, T>;

    static Sum load(const ReduceArgs& args, T value) noexcept {
        return args.prescale == 1 ? Sum{value}
                                  : Sum{saturate<T>(static_cast<double>(value) * args.prescale)};
    }
    static Sum combine(Sum sum, Sum value) noexcept { return kernels::combine<kOp>(sum, value); }
    static T store(const ReduceArgs& args, Sum sum) noexcept {
        if (args.postscale != 1) {
            return saturate<T>(static_cast<double>(sum) * args.postscale / args.divisor);
        }
        if constexpr (kOp == ReduceOp::average) {
            return static_cast<T>(sum / static_cast<Sum>(args.divisor));
        } else {
            using Limits = std::numeric_limits<T>;
            return static_cast<T>(std::clamp(sum, Sum{Limits::min()}, Sum{Limits::max()}));
        }
    }
};

/// Any byte but 0 is true. Scale factors mean nothing.
template <ReduceOp kOp>
struct BoolPolicy {
    using Stored = std::uint8_t;
    using Sum = std::uint8_t;

    static Sum load(const ReduceArgs&, Stored value) noexcept { return value != 0 ? 1 : 0; }
    static Sum combine(Sum sum, Sum value) noexcept {
        constexpr bool kIsAnd = kOp == ReduceOp::product || kOp == ReduceOp::min;
        return static_cast<Sum>(kIsAnd ? sum & value : sum | value);
    }
    static Stored store(const ReduceArgs&, Sum sum) noexcept { return sum; }
};

template <class Element, ReduceOp kOp>
[[nodiscard]] Kernel float_kernel(bool is_scaled) noexcept {
    return is_scaled ? &reduce_blocks<FloatPolicy<Element, kOp, true>>
                     : &reduce_blocks<FloatPolicy<Element, kOp, false>>;
}

template <class T, ReduceOp kOp>
[[nodiscard]] Kernel integer_kernel(bool is_scaled) noexcept {
    if (is_scaled) {
        return &reduce_blocks<ScaledPolicy<T, kOp>>;
    }
    return &reduce_blocks<PlainPolicy<T, kOp>>;
}

template <ReduceOp kOp>
[[nodiscard]] Kernel kernel_for(DataType type, bool is_scaled) noexcept {
    switch (type) {
        case DataType::boolean:
            return kOp == ReduceOp::average ? nullptr : &reduce_blocks<BoolPolicy<kOp>>;
        case DataType::u8: return integer_kernel<std::uint8_t, kOp>(is_scaled);
        case DataType::i8: return integer_kernel<std::int8_t, kOp>(is_scaled);
        case DataType::u16: return integer_kernel<std::uint16_t, kOp>(is_scaled);
        case DataType::i16: return integer_kernel<std::int16_t, kOp>(is_scaled);
        case DataType::u32: return integer_kernel<std::uint32_t, kOp>(is_scaled);
        case DataType::i32: return integer_kernel<std::int32_t, kOp>(is_scaled);
        case DataType::u64: return integer_kernel<std::uint64_t, kOp>(is_scaled);
        case DataType::i64: return integer_kernel<std::int64_t, kOp>(is_scaled);
        case DataType::f16: return float_kernel<Float16, kOp>(is_scaled);
        case DataType::bf16: return float_kernel<BFloat16, kOp>(is_scaled);
        case DataType::f32: return float_kernel<Float32, kOp>(is_scaled);
        case DataType::f64: return float_kernel<Float64, kOp>(is_scaled);
    }
    return nullptr;
}

}  // namespace

Kernel generic_kernel(DataType type, ReduceOp op, bool is_scaled) noexcept {
    switch (op) {
        case ReduceOp::average: return kernel_for<ReduceOp::average>(type, is_scaled);
        case ReduceOp::sum: return kernel_for<ReduceOp::sum>(type, is_scaled);
        case ReduceOp::min: return kernel_for<ReduceOp::min>(type, is_scaled);
        case ReduceOp::max: return kernel_for<ReduceOp::max>(type, is_scaled);
        case ReduceOp::product: return kernel_for<ReduceOp::product>(type, is_scaled);
        case ReduceOp::adasum:
        case ReduceOp::adasum_across_hosts: break;  // no combination element by element
    }
    return nullptr;
}

}  // namespace hvd::coll::kernels
