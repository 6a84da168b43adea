// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/narrowing.hpp"

#include "collectives/reduce/half.hpp"

#include <cstdint>
#include <cstring>

namespace hvd::coll {
namespace {

/// Tensors may lie at any address.
template <class T>
T load(const std::byte* from, std::size_t index) {
    T value{};
    std::memcpy(&value, from + index * sizeof(T), sizeof(T));
    return value;
}

template <class T>
void store(T value, std::byte* to, std::size_t index) {
    std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

/// From element `first` on.
template <class T, std::uint16_t (*kRound)(float)>
void narrow_all(const kernels::NarrowingArgs& args, std::size_t first) {
    const auto factor = static_cast<T>(args.factor);
    for (std::size_t index = first; index < args.count; ++index) {
        store(kRound(static_cast<float>(load<T>(args.from, index) * factor)), args.to, index);
    }
}

template <class T, float (*kWiden)(std::uint16_t)>
void widen_all(const kernels::NarrowingArgs& args, std::size_t first) {
    const auto divisor = static_cast<T>(args.divisor);
    const auto factor = static_cast<T>(args.factor);
    for (std::size_t index = first; index < args.count; ++index) {
        const T value = kWiden(load<std::uint16_t>(args.from, index));
        store(value / divisor * factor, args.to, index);
    }
}

}  // namespace

Narrowing::Narrowing(DataType type, Wire wire) noexcept
    : is_f64_(type == DataType::f64), is_f16_(wire == Wire::f16) {
    static const auto f16 =
        kernels::best_narrowing_kernels(Wire::f16);  // asking the CPU takes long
    static const auto bf16 = kernels::best_narrowing_kernels(Wire::bf16);
    if (!is_f64_) {
        vector_ = is_f16_ ? f16 : bf16;
    }
}

void Narrowing::narrow(const std::byte* in,
                       std::size_t count,
                       double factor,
                       std::byte* out) const {
    const kernels::NarrowingArgs args{.from = in, .to = out, .count = count, .factor = factor};
    const std::size_t first = vector_.narrow != nullptr ? vector_.narrow(args) : 0;
    if (is_f64_) {
        (is_f16_ ? narrow_all<double, f32_to_f16> : narrow_all<double, f32_to_bf16>)(args, first);
    } else {
        (is_f16_ ? narrow_all<float, f32_to_f16> : narrow_all<float, f32_to_bf16>)(args, first);
    }
}

void Narrowing::widen(const std::byte* in,
                      std::size_t count,
                      int divisor,
                      double factor,
                      std::byte* out) const {
    const kernels::NarrowingArgs args{
        .from = in, .to = out, .count = count, .factor = factor, .divisor = divisor};
    const std::size_t first = vector_.widen != nullptr ? vector_.widen(args) : 0;
    if (is_f64_) {
        (is_f16_ ? widen_all<double, f16_to_f32> : widen_all<double, bf16_to_f32>)(args, first);
    } else {
        (is_f16_ ? widen_all<float, f16_to_f32> : widen_all<float, bf16_to_f32>)(args, first);
    }
}

}  // namespace hvd::coll
