// SPDX-License-Identifier: Apache-2.0
//
// Rounding f32 and widening it again as vectors; included as kernels_simd.hpp is.
#pragma once

#include "collectives/reduce/kernels_simd.hpp"

namespace hvd::coll::kernels {
namespace {

/// Whole vectors of f32, as a half in between.
template <class Half>
struct NarrowingLoops {
    using Tag = typename Half::Tag;

    static std::size_t narrow(const NarrowingArgs& args) {
        const auto* const from = reinterpret_cast<const float*>(args.from);
        auto* const to = reinterpret_cast<std::uint16_t*>(args.to);
        const auto factor = hn::Set(Tag(), static_cast<float>(args.factor));
        const std::size_t lanes = hn::Lanes(Tag());
        const std::size_t whole = args.count / lanes * lanes;
        for (std::size_t index = 0; index < whole; index += lanes) {
            Half::store(hn::Mul(hn::LoadU(Tag(), from + index), factor), to + index);
        }
        return whole;
    }

    static std::size_t widen(const NarrowingArgs& args) {
        const auto* const from = reinterpret_cast<const std::uint16_t*>(args.from);
        auto* const to = reinterpret_cast<float*>(args.to);
        const auto divisor = hn::Set(Tag(), static_cast<float>(args.divisor));
        const auto factor = hn::Set(Tag(), static_cast<float>(args.factor));
        const std::size_t lanes = hn::Lanes(Tag());
        const std::size_t whole = args.count / lanes * lanes;
        for (std::size_t index = 0; index < whole; index += lanes) {
            const auto value = hn::Div(Half::load(from + index), divisor);
            hn::StoreU(hn::Mul(value, factor), Tag(), to + index);
        }
        return whole;
    }
};

[[nodiscard]] inline NarrowingKernels simd_narrowing(Wire wire) noexcept {
    return wire == Wire::f16
               ? NarrowingKernels{&NarrowingLoops<Float16>::narrow, &NarrowingLoops<Float16>::widen}
               : NarrowingKernels{&NarrowingLoops<BFloat16>::narrow,
                                  &NarrowingLoops<BFloat16>::widen};
}

}  // namespace
}  // namespace hvd::coll::kernels
