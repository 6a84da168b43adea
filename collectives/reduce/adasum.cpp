// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/adasum.hpp"

#include "collectives/base/error.hpp"
#include "collectives/reduce/half.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace hvd::coll {
namespace {

template <class T>
[[nodiscard]] const T* as(const std::byte* memory) noexcept {
    return reinterpret_cast<const T*>(memory);
}

template <class T>
[[nodiscard]] T* as(std::byte* memory) noexcept {
    return reinterpret_cast<T*>(memory);
}

template <float (*kLoad)(std::uint16_t)>
void widen_halves(const std::byte* in, std::byte* work, std::size_t count, double factor) noexcept {
    for (std::size_t index = 0; index < count; ++index) {
        as<float>(work)[index] = kLoad(as<std::uint16_t>(in)[index]) * static_cast<float>(factor);
    }
}

template <std::uint16_t (*kStore)(float)>
void narrow_to_halves(const std::byte* work,
                      std::byte* out,
                      std::size_t count,
                      double factor) noexcept {
    for (std::size_t index = 0; index < count; ++index) {
        as<std::uint16_t>(out)[index] = kStore(as<float>(work)[index] * static_cast<float>(factor));
    }
}

template <class T>
void scale(const std::byte* in, std::byte* out, std::size_t count, double factor) noexcept {
    if (factor == 1) {
        std::memcpy(out, in, count * sizeof(T));
        return;
    }
    for (std::size_t index = 0; index < count; ++index) {
        as<T>(out)[index] = as<T>(in)[index] * static_cast<T>(factor);
    }
}

// Several sums at a time, which the compiler makes vectors of; in one order on every CPU.
constexpr std::size_t kLanes = 8;

[[nodiscard]] double total(const std::array<double, kLanes>& sums) noexcept {
    double all = 0;
    for (const double sum : sums) {
        all += sum;
    }
    return all;
}

template <class T>
[[nodiscard]] AdasumDots dots_of(const T* a, const T* b, std::size_t count) noexcept {
    std::array<double, kLanes> ab{};
    std::array<double, kLanes> aa{};
    std::array<double, kLanes> bb{};
    std::size_t index = 0;
    for (; index + kLanes <= count; index += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const double left = a[index + lane];
            const double right = b[index + lane];
            ab[lane] += left * right;
            aa[lane] += left * left;
            bb[lane] += right * right;
        }
    }
    for (std::size_t lane = 0; index < count; ++index, ++lane) {
        const double left = a[index];
        const double right = b[index];
        ab[lane] += left * right;
        aa[lane] += left * left;
        bb[lane] += right * right;
    }
    return {.ab = total(ab), .aa = total(aa), .bb = total(bb)};
}

[[nodiscard]] double factor_of(double product, double square) noexcept {
    return square == 0 ? 1 : 1 - product / (2 * square);
}

template <class T>
void average_as(T* own, const T* more, std::size_t others, std::size_t count) noexcept {
    for (std::size_t index = 0; index < count; ++index) {
        double sum = own[index];
        for (std::size_t other = 0; other < others; ++other) {
            sum += more[other * count + index];
        }
        own[index] = static_cast<T>(sum / static_cast<double>(others + 1));
    }
}

template <class T>
void combine_as(const AdasumDots& dots,
                const T* a,
                const T* b,
                T* out,
                std::size_t count) noexcept {
    const double of_a = factor_of(dots.ab, dots.aa);
    const double of_b = factor_of(dots.ab, dots.bb);
    for (std::size_t index = 0; index < count; ++index) {
        out[index] = static_cast<T>(of_a * static_cast<double>(a[index]) +
                                    of_b * static_cast<double>(b[index]));
    }
}

}  // namespace

Adasum::Adasum(const Task& task)
    : type_(task.type), prescale_(task.prescale), postscale_(task.postscale) {
    if (type_ < DataType::f16) {
        throw Exception(Error{Errc::unsupported,
                              "adasum of " + std::string(to_string(type_)) + " has no meaning"});
    }
}

void Adasum::widen(const std::byte* in, std::byte* work, std::size_t count) const noexcept {
    if (count == 0) {
        return;
    }
    if (type_ == DataType::f16) {
        widen_halves<f16_to_f32>(in, work, count, prescale_);
    } else if (type_ == DataType::bf16) {
        widen_halves<bf16_to_f32>(in, work, count, prescale_);
    } else if (type_ == DataType::f32) {
        scale<float>(in, work, count, prescale_);
    } else {
        scale<double>(in, work, count, prescale_);
    }
}

void Adasum::narrow(const std::byte* work, std::byte* out, std::size_t count) const noexcept {
    if (count == 0) {
        return;
    }
    if (type_ == DataType::f16) {
        narrow_to_halves<f32_to_f16>(work, out, count, postscale_);
    } else if (type_ == DataType::bf16) {
        narrow_to_halves<f32_to_bf16>(work, out, count, postscale_);
    } else if (type_ == DataType::f32) {
        scale<float>(work, out, count, postscale_);
    } else {
        scale<double>(work, out, count, postscale_);
    }
}

AdasumDots Adasum::dots(const std::byte* a, const std::byte* b, std::size_t count) const noexcept {
    return type_ == DataType::f64 ? dots_of(as<double>(a), as<double>(b), count)
                                  : dots_of(as<float>(a), as<float>(b), count);
}

void Adasum::average(std::byte* own,
                     const std::byte* more,
                     std::size_t others,
                     std::size_t count) const noexcept {
    if (type_ == DataType::f64) {
        average_as(as<double>(own), as<double>(more), others, count);
    } else {
        average_as(as<float>(own), as<float>(more), others, count);
    }
}

void Adasum::combine(const AdasumDots& dots,
                     const std::byte* a,
                     const std::byte* b,
                     std::byte* out,
                     std::size_t count) const noexcept {
    if (type_ == DataType::f64) {
        combine_as(dots, as<double>(a), as<double>(b), as<double>(out), count);
    } else {
        combine_as(dots, as<float>(a), as<float>(b), as<float>(out), count);
    }
}

}  // namespace hvd::coll
