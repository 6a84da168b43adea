// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/nccl_reduce.hpp"

#include "collectives/reduce/half.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace hvd::test::gpu {
namespace {

/// 16 bits that are calculated with as floats.
template <float (*kWiden)(std::uint16_t), std::uint16_t (*kNarrow)(float)>
struct Half {
    using Value = float;
    static constexpr std::size_t kBytes = 2;
    static float load(const std::byte* from) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, from, sizeof(bits));
        return kWiden(bits);
    }
    static void store(float value, std::byte* to) {
        const std::uint16_t bits = kNarrow(value);
        std::memcpy(to, &bits, sizeof(bits));
    }
    static float round(float value) { return kWiden(kNarrow(value)); }
};
using F16 = Half<&coll::f16_to_f32, &coll::f32_to_f16>;
using Bf16 = Half<&coll::bf16_to_f32, &coll::f32_to_bf16>;

template <class T>
struct Plain {
    using Value = T;
    static constexpr std::size_t kBytes = sizeof(T);
    static T load(const std::byte* from) {
        T value{};
        std::memcpy(&value, from, sizeof(T));
        return value;
    }
    static void store(T value, std::byte* to) { std::memcpy(to, &value, sizeof(T)); }
    static T round(T value) { return value; }
};

/// Integers wrap, as a GPU's do.
template <class T>
T combine(ncclRedOp_t op, T a, T b) {
    switch (op) {
        case ncclProd:
        case ncclSum: break;
        case ncclMax: return std::max(a, b);
        case ncclMin: return std::min(a, b);
        default: break;
    }
    if constexpr (std::is_integral_v<T>) {
        const auto x = static_cast<std::uint64_t>(a);
        const auto y = static_cast<std::uint64_t>(b);
        return static_cast<T>(op == ncclProd ? x * y : x + y);
    } else {
        return op == ncclProd ? a * b : a + b;
    }
}

template <class Type>
void reduce_all(const Reduction& reduction,
                std::span<const std::byte* const> inputs,
                std::byte* to,
                std::size_t count) {
    using Value = typename Type::Value;
    for (std::size_t index = 0; index < count; ++index) {
        const auto offset = index * Type::kBytes;
        const auto input = [&](const std::byte* from) {
            const Value value = Type::load(from + offset);
            return reduction.factor == 1 ? value
                                         : Type::round(static_cast<Value>(
                                               value * static_cast<Value>(reduction.factor)));
        };
        Value sum = input(inputs.front());
        for (const auto* const from : inputs.subspan(1)) {
            sum = Type::round(combine(reduction.op, sum, input(from)));
        }
        if (reduction.op == ncclAvg) {
            sum = static_cast<Value>(sum / static_cast<Value>(inputs.size()));
        }
        Type::store(sum, to + offset);
    }
}

}  // namespace

std::size_t element_bytes(ncclDataType_t type) noexcept {
    switch (type) {
        case ncclInt8:
        case ncclUint8: return 1;
        case ncclFloat16:
        case ncclBfloat16: return 2;
        case ncclInt32:
        case ncclUint32:
        case ncclFloat32: return 4;
        case ncclInt64:
        case ncclUint64:
        case ncclFloat64: return 8;
        default: return 0;
    }
}

void reduce(const Reduction& reduction,
            std::span<const std::byte* const> inputs,
            std::byte* to,
            std::size_t count) {
    const auto run = [&]<class Type>(Type) { reduce_all<Type>(reduction, inputs, to, count); };
    switch (reduction.type) {
        case ncclInt8: return run(Plain<std::int8_t>{});
        case ncclUint8: return run(Plain<std::uint8_t>{});
        case ncclInt32: return run(Plain<std::int32_t>{});
        case ncclUint32: return run(Plain<std::uint32_t>{});
        case ncclInt64: return run(Plain<std::int64_t>{});
        case ncclUint64: return run(Plain<std::uint64_t>{});
        case ncclFloat16: return run(F16{});
        case ncclBfloat16: return run(Bf16{});
        case ncclFloat32: return run(Plain<float>{});
        case ncclFloat64: return run(Plain<double>{});
        default: return;
    }
}

}  // namespace hvd::test::gpu
