// SPDX-License-Identifier: Apache-2.0
//
// The body of the vector kernels, included by one file per instruction set, each compiled for it
// (Highway's static dispatch). Everything here has internal linkage.
#pragma once

#include "collectives/reduce/kernels.hpp"

#include <cstdint>

#include <hwy/highway.h>

namespace hvd::coll::kernels {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kAhead =
    1024;  // bytes; further does not help, nearer does not hide it all

// How each type is read and written as vectors of what is summed.

template <class T>
struct Plain {
    using Stored = T;
    using Tag = hn::ScalableTag<T>;
    static auto load(const T* from) { return hn::LoadU(Tag(), from); }
    template <class V>
    static void store(V value, T* to) {
        hn::StoreU(value, Tag(), to);
    }
};

struct Float16 {
    using Stored = std::uint16_t;
    using Tag = hn::ScalableTag<float>;
    using HalfTag = hn::Rebind<hwy::float16_t, Tag>;
    static auto load(const std::uint16_t* from) {
        return hn::PromoteTo(Tag(),
                             hn::LoadU(HalfTag(), reinterpret_cast<const hwy::float16_t*>(from)));
    }
    template <class V>
    static void store(V value, std::uint16_t* to) {
        hn::StoreU(hn::DemoteTo(HalfTag(), value), HalfTag(),
                   reinterpret_cast<hwy::float16_t*>(to));
    }
};

struct BFloat16 {
    using Stored = std::uint16_t;
    using Tag = hn::ScalableTag<float>;
    using HalfTag = hn::Rebind<std::uint16_t, Tag>;
    using BitsTag = hn::RebindToUnsigned<Tag>;
    using SignedTag = hn::RebindToSigned<Tag>;
    static auto load(const std::uint16_t* from) {
        const BitsTag bits;
        return hn::BitCast(Tag(),
                           hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(HalfTag(), from))));
    }
    template <class V>
    static void store(V value, std::uint16_t* to) {
        const BitsTag tag;
        const auto bits = hn::BitCast(tag, value);
        const auto high = hn::ShiftRight<16>(bits);
        const auto odd = hn::And(high, hn::Set(tag, 1U));
        const auto nearest = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(tag, 0x7fffU))));
        const auto quiet_nan = hn::Or(high, hn::Set(tag, 0x40U));
        const auto is_nan = hn::RebindMask(tag, hn::IsNaN(value));
        const auto rounded = hn::IfThenElse(is_nan, quiet_nan, nearest);
        hn::StoreU(hn::DemoteTo(HalfTag(), hn::BitCast(SignedTag(), rounded)), HalfTag(), to);
    }
};

/// Fetches the lines of the taken outputs for writing, once each, up to the end of what is written.
class Taker {
public:
    Taker(const ReduceArgs& args, std::size_t bytes) : args_(args), bytes_(bytes) {}

    HWY_INLINE void advance(std::size_t position) {
        const std::size_t wanted = position + kAhead < bytes_ ? position + kAhead : bytes_;
        for (; next_ < wanted; next_ += kLine) {
            for (int target = 0; target < args_.taken_count; ++target) {
                __builtin_prefetch(args_.outputs[target] + next_, 1, 3);
            }
        }
    }

private:
    const ReduceArgs& args_;
    std::size_t bytes_;
    std::size_t next_ = 0;
};

/// The pointers of a call, typed and out of reach of what the loop writes. A count of 0 means that
/// it is known only at run time.
template <class Stored, class Byte, int kCount>
struct Pointers {
    Pointers(Byte* const* from, int) {
        for (int index = 0; index < kCount; ++index) {
            all[index] = reinterpret_cast<Stored*>(from[index]);
        }
    }
    [[nodiscard]] static constexpr int count() { return kCount; }
    [[nodiscard]] HWY_INLINE Stored* operator[](int index) const { return all[index]; }

    // The linker might keep this file's std::array::operator[], which other CPUs cannot run.
    Stored* all[kCount];  // NOLINT(modernize-avoid-c-arrays)
};
template <class Stored, class Byte>
struct Pointers<Stored, Byte, 0> {
    Pointers(Byte* const* from, int count) : all(from), size(count) {}
    [[nodiscard]] int count() const { return size; }
    [[nodiscard]] HWY_INLINE Stored* operator[](int index) const {
        return reinterpret_cast<Stored*>(all[index]);
    }

    Byte* const* all;
    int size;
};

/// `kIsScaled` is for floating point only: factors of 1 change no bit, but cost time.
template <class Element, bool kIsScaled>
struct SumLoop {
    using Stored = typename Element::Stored;
    using Tag = typename Element::Tag;
    using Value = hn::TFromD<Tag>;
    using Vector = hn::Vec<Tag>;

    HWY_INLINE static Vector load(const ReduceArgs& args, const Stored* from) {
        const auto value = Element::load(from);
        if constexpr (kIsScaled) {
            return hn::Mul(value, hn::Set(Tag(), static_cast<Value>(args.prescale)));
        } else {
            return value;
        }
    }

    HWY_INLINE static Vector finish(const ReduceArgs& args, Vector sum) {
        if constexpr (kIsScaled) {
            sum = hn::Div(sum, hn::Set(Tag(), static_cast<Value>(args.divisor)));
            sum = hn::Mul(sum, hn::Set(Tag(), static_cast<Value>(args.postscale)));
        }
        return sum;
    }

    template <int kInputs, int kOutputs>
    static std::size_t run_counted(const ReduceArgs& args) {
        const Pointers<const Stored, const std::byte, kInputs> in(args.inputs, args.input_count);
        const Pointers<Stored, std::byte, kOutputs> out(args.outputs, args.output_count);
        const std::size_t lanes = hn::Lanes(Tag());
        const std::size_t whole = args.count / lanes * lanes;
        Taker taker(args, whole * sizeof(Stored));
        std::size_t index = 0;
        for (; index + 4 * lanes <= whole; index += 4 * lanes) {
            taker.advance(index * sizeof(Stored));
            const Stored* from = in[0] + index;
            Vector sum0 = load(args, from);
            Vector sum1 = load(args, from + lanes);
            Vector sum2 = load(args, from + 2 * lanes);
            Vector sum3 = load(args, from + 3 * lanes);
            for (int rank = 1; rank < in.count(); ++rank) {
                from = in[rank] + index;
                sum0 = hn::Add(sum0, load(args, from));
                sum1 = hn::Add(sum1, load(args, from + lanes));
                sum2 = hn::Add(sum2, load(args, from + 2 * lanes));
                sum3 = hn::Add(sum3, load(args, from + 3 * lanes));
            }
            sum0 = finish(args, sum0);
            sum1 = finish(args, sum1);
            sum2 = finish(args, sum2);
            sum3 = finish(args, sum3);
            for (int target = 0; target < out.count(); ++target) {
                Stored* to = out[target] + index;
                Element::store(sum0, to);
                Element::store(sum1, to + lanes);
                Element::store(sum2, to + 2 * lanes);
                Element::store(sum3, to + 3 * lanes);
            }
        }
        for (; index < whole; index += lanes) {
            Vector sum = load(args, in[0] + index);
            for (int rank = 1; rank < in.count(); ++rank) {
                sum = hn::Add(sum, load(args, in[rank] + index));
            }
            sum = finish(args, sum);
            for (int target = 0; target < out.count(); ++target) {
                Element::store(sum, out[target] + index);
            }
        }
        return whole;
    }

    /// Two ranks are common, and then counting costs as much as adding.
    static std::size_t run(const ReduceArgs& args) {
        if (args.input_count == 2 && args.output_count == 1) {
            return run_counted<2, 1>(args);
        }
        if (args.input_count == 2 && args.output_count == 2) {
            return run_counted<2, 2>(args);
        }
        return run_counted<0, 0>(args);
    }
};

template <class Element>
std::size_t float_sum(const ReduceArgs& args) {
    if (args.prescale == 1 && args.postscale == 1 && args.divisor == 1) {
        return SumLoop<Element, false>::run(args);
    }
    return SumLoop<Element, true>::run(args);
}

[[nodiscard]] inline VectorKernel simd_kernel(DataType type, ReduceOp op) noexcept {
    if (op != ReduceOp::sum && op != ReduceOp::average) {
        return nullptr;
    }
    switch (type) {
        case DataType::f16: return &float_sum<Float16>;
        case DataType::bf16: return &float_sum<BFloat16>;
        case DataType::f32: return &float_sum<Plain<float>>;
        case DataType::f64: return &float_sum<Plain<double>>;
        // Wrapping sums are the same with and without a sign.
        case DataType::u32:
        case DataType::i32: return &SumLoop<Plain<std::uint32_t>, false>::run;
        case DataType::u64:
        case DataType::i64: return &SumLoop<Plain<std::uint64_t>, false>::run;
        case DataType::boolean:
        case DataType::u8:
        case DataType::i8:
        case DataType::u16:
        case DataType::i16: break;
    }
    return nullptr;
}

}  // namespace
}  // namespace hvd::coll::kernels
