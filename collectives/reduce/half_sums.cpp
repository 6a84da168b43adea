// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/half_sums.hpp"

#include "collectives/reduce/half.hpp"
#include "collectives/reduce/reducer.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace hvd::coll {
namespace {

template <float (*kLoad)(std::uint16_t)>
void widen_all(const std::byte* in, std::span<float> partial, float factor) noexcept {
    for (auto& sum : partial) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, in, sizeof bits);
        in += sizeof bits;
        sum = kLoad(bits) * factor;
    }
}

template <std::uint16_t (*kStore)(float)>
void finish_all(std::span<const float> partial,
                std::byte* out,
                float divisor,
                float factor) noexcept {
    for (const float sum : partial) {
        const float result = sum / divisor * factor;
        const auto bits =
            kStore(std::isnan(result) ? std::numeric_limits<float>::quiet_NaN() : result);
        std::memcpy(out, &bits, sizeof bits);
        out += sizeof bits;
    }
}

/// Thread: any. MPI calls it from within its own functions.
template <ReduceOp kOp>
// NOLINTNEXTLINE(readability-non-const-parameter): it is written, as bytes
void combine(const float* in, float* inout, int count) {
    static const Reducer reducer({.reduce = kOp, .type = DataType::f32}, 2);
    auto* const sums = reinterpret_cast<std::byte*>(inout);
    const std::array<const std::byte*, 2> inputs{reinterpret_cast<const std::byte*>(in), sums};
    reducer.run(inputs, {&sums, 1}, static_cast<std::size_t>(count));
}

}  // namespace

HalfSums::HalfSums(const Task& task, int ranks) noexcept
    : is_f16_(task.type == DataType::f16),
      prescale_(static_cast<float>(task.prescale)),
      postscale_(static_cast<float>(task.postscale)),
      divisor_(task.reduce == ReduceOp::average
                   ? static_cast<float>(task.divisor != 0 ? task.divisor : ranks)
                   : 1.0F) {}

void HalfSums::widen(const std::byte* in, std::span<float> partial) const noexcept {
    (is_f16_ ? widen_all<f16_to_f32> : widen_all<bf16_to_f32>)(in, partial, prescale_);
}

void HalfSums::finish(std::span<const float> partial, std::byte* out) const noexcept {
    (is_f16_ ? finish_all<f32_to_f16> : finish_all<f32_to_bf16>)(partial, out, divisor_,
                                                                 postscale_);
}

CombineFloats float_combiner(ReduceOp op) noexcept {
    switch (op) {
        case ReduceOp::average:
        case ReduceOp::sum: return &combine<ReduceOp::sum>;
        case ReduceOp::product: return &combine<ReduceOp::product>;
        case ReduceOp::min:
        case ReduceOp::max:
        case ReduceOp::adasum:
        case ReduceOp::adasum_across_hosts: break;
    }
    return nullptr;
}

}  // namespace hvd::coll
