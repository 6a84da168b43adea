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

template <class T, std::uint16_t (*kRound)(float)>
void narrow_all(const std::byte* in, std::size_t count, T factor, std::byte* out) {
    for (std::size_t index = 0; index < count; ++index) {
        store(kRound(static_cast<float>(load<T>(in, index) * factor)), out, index);
    }
}

template <class T, float (*kWiden)(std::uint16_t)>
void widen_all(const std::byte* in, std::size_t count, T divisor, T factor, std::byte* out) {
    for (std::size_t index = 0; index < count; ++index) {
        const T value = kWiden(load<std::uint16_t>(in, index));
        store(value / divisor * factor, out, index);
    }
}

}  // namespace

Narrowing::Narrowing(DataType type, Wire wire) noexcept
    : is_f64_(type == DataType::f64), is_f16_(wire == Wire::f16) {}

void Narrowing::narrow(const std::byte* in,
                       std::size_t count,
                       double factor,
                       std::byte* out) const {
    if (is_f64_) {
        (is_f16_ ? narrow_all<double, f32_to_f16> : narrow_all<double, f32_to_bf16>)(in, count,
                                                                                     factor, out);
    } else {
        (is_f16_ ? narrow_all<float, f32_to_f16>
                 : narrow_all<float, f32_to_bf16>)(in, count, static_cast<float>(factor), out);
    }
}

void Narrowing::widen(const std::byte* in,
                      std::size_t count,
                      int divisor,
                      double factor,
                      std::byte* out) const {
    if (is_f64_) {
        (is_f16_ ? widen_all<double, f16_to_f32>
                 : widen_all<double, bf16_to_f32>)(in, count, divisor, factor, out);
    } else {
        (is_f16_ ? widen_all<float, f16_to_f32>
                 : widen_all<float, bf16_to_f32>)(in, count, static_cast<float>(divisor),
                                                  static_cast<float>(factor), out);
    }
}

}  // namespace hvd::coll
