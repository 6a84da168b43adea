// SPDX-License-Identifier: Apache-2.0
//
// Batched pack and unpack: what one thread of a kernel does. Compiled by nvcc for GPUs and, as the
// kernels' twins, by the compiler of the host.
//
// The fused buffer is cut into tiles, each of which a warp takes as a whole; it finds the first
// tensor of its tile in the table by bisection and goes on from there. So ten thousand small
// tensors and one large one both keep every warp busy, in one launch. Lanes exchange nothing.
#pragma once

#include "collectives/cuda/pack_arguments.hpp"
#include "collectives/reduce/half.hpp"

#include <cstring>
#include <limits>
#include <type_traits>

#ifdef __CUDACC__
#define HVD_DEVICE __device__ __forceinline__
#define HVD_UNROLL _Pragma("unroll")  // small arrays become registers
#else
#define HVD_DEVICE inline
#define HVD_UNROLL
#endif

// Code for a GPU: arrays of registers, indices of 32 bits, types named as the kernels are.
// NOLINTBEGIN(modernize-avoid-c-arrays, readability-identifier-naming)
// NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result)
// NOLINTBEGIN(bugprone-sizeof-expression, bugprone-signed-char-misuse)
namespace hvd::coll::cuda::device {

// Types of elements: how they are stored, and in which type they are calculated with.
struct f16 {
    std::uint16_t bits;
};
struct bf16 {
    std::uint16_t bits;
};
using f32 = float;
using f64 = double;
using i8 = std::int8_t;
using u8 = std::uint8_t;
using i16 = std::int16_t;
using u16 = std::uint16_t;
using i32 = std::int32_t;
using u32 = std::uint32_t;
using i64 = std::int64_t;
using u64 = std::uint64_t;

HVD_DEVICE float widen(f16 value) {
#ifdef __CUDA_ARCH__
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
#else
    return f16_to_f32(value.bits);
#endif
}

HVD_DEVICE float widen(bf16 value) {
    return bf16_to_f32(value.bits);
}

template <class T>
HVD_DEVICE T widen(T value) {
    return value;
}

/// Rounded to nearest even; a NaN stays one, though not with the same bits everywhere.
template <class T>
HVD_DEVICE void narrow(T value, f16& result) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(static_cast<float>(value)));
#else
    result.bits = f32_to_f16(static_cast<float>(value));
#endif
}

template <class T>
HVD_DEVICE void narrow(T value, bf16& result) {
    result.bits = f32_to_bf16(static_cast<float>(value));
}

template <class T, class Result>
HVD_DEVICE void narrow(T value, Result& result) {
    result = static_cast<Result>(value);
}

/// Cut towards zero; what does not fit becomes the nearest that does, a NaN 0.
template <class T>
HVD_DEVICE T saturate(double value) {
    using Limits = std::numeric_limits<T>;
    if (!(value == value)) {
        return 0;
    }
    if (value <= static_cast<double>(Limits::min())) {
        return Limits::min();
    }
    // The largest of 64 bits is no double: this one is the next above it.
    if (value >= static_cast<double>(Limits::max())) {
        return Limits::max();
    }
    return static_cast<T>(value);
}

/// One value: divided, multiplied, converted, as collectives/reduce does it. Floating point is
/// calculated with in the wider type of both.
template <class From, class To>
struct Convert {
    using Own = decltype(widen(From{}));
    using Other = decltype(widen(To{}));
    using Value = std::
        conditional_t<std::is_floating_point_v<Own> && (sizeof(Other) > sizeof(Own)), Other, Own>;
    // Widened integers that are scaled stay within the narrow type, as if it had been scaled alone.
    using Narrow = std::conditional_t<(sizeof(From) < sizeof(To)), From, To>;

    double factor;
    std::int64_t divisor;

    HVD_DEVICE To operator()(From from) const {
        To to{};
        if constexpr (std::is_floating_point_v<Value>) {
            Value value = widen(from);
            if (divisor != 1) {
                value = value / static_cast<Value>(divisor);
            }
            if (factor != 1) {
                value = value * static_cast<Value>(factor);
            }
            narrow(value, to);
        } else if (factor != 1) {
            to =
                saturate<Narrow>(static_cast<double>(from) * factor / static_cast<double>(divisor));
        } else if (divisor != 1) {
            to = static_cast<To>(from / static_cast<Value>(divisor));
        } else {
            to = static_cast<To>(from);  // wraps, as sums do
        }
        return to;
    }
};

inline constexpr unsigned kVector = 16;  // bytes of one access

HVD_DEVICE unsigned misalignment(const void* address, unsigned bytes) {
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(address) % bytes);
}

/// Bytes from `address` to the next that is aligned.
HVD_DEVICE unsigned bytes_to_aligned(const void* address, unsigned bytes) {
    return (bytes - misalignment(address, bytes)) % bytes;
}

#ifdef __CUDA_ARCH__
using Vector = uint4;
#else
struct Vector {
    std::uint32_t words[4];
};
#endif

/// One access, of an aligned word of 1 to 16 bytes.
template <class Word>
HVD_DEVICE Word load(const void* from) {
#ifdef __CUDA_ARCH__
    return *static_cast<const Word*>(from);
#else
    Word word{};
    std::memcpy(&word, __builtin_assume_aligned(from, sizeof(Word)), sizeof(Word));
    return word;
#endif
}

template <class Word>
HVD_DEVICE void store(const Word& word, void* to) {
#ifdef __CUDA_ARCH__
    *static_cast<Word*>(to) = word;
#else
    std::memcpy(__builtin_assume_aligned(to, sizeof(Word)), &word, sizeof(Word));
#endif
}

/// Puts an element into registers that are stored as vectors. nvcc would store small elements one
/// by one.
template <class T>
HVD_DEVICE void put(T value, std::uint32_t* words, unsigned index) {
    if constexpr (sizeof(T) < sizeof(std::uint32_t)) {
        constexpr unsigned kPerWord = sizeof(std::uint32_t) / sizeof(T);
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof(T));  // both machines are little-endian
        const std::uint32_t shifted = bits << (8 * sizeof(T) * (index % kPerWord));
        words[index / kPerWord] =
            index % kPerWord == 0 ? shifted : words[index / kPerWord] | shifted;
    } else {
        std::memcpy(words + index * (sizeof(T) / sizeof(std::uint32_t)), &value, sizeof(T));
    }
}

/// The lane's share of converting `count` elements: single ones up to the first where both sides
/// are aligned, vectors, and single ones for the rest. Where no element is aligned on both sides,
/// all are single ones.
template <class From, class To>
HVD_DEVICE void convert_piece(const From* from,
                              To* to,
                              std::uint64_t count,
                              const Convert<From, To>& convert,
                              unsigned lane) {
    constexpr unsigned kSmall = sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To);
    constexpr unsigned kGroup = kVector / kSmall;  // elements: whole vectors on both sides
    constexpr unsigned kReads = kGroup * sizeof(From) / kVector;
    constexpr unsigned kWrites = kGroup * sizeof(To) / kVector;
    constexpr unsigned kBatch = kReads >= 4 ? 1 : 4 / kReads;  // groups in flight: 64 bytes

    const void* const small = sizeof(From) < sizeof(To) ? static_cast<const void*>(from) : to;
    std::uint64_t head = bytes_to_aligned(small, kVector) / kSmall;
    if (head > count || misalignment(from + head, kVector) != 0 ||
        misalignment(to + head, kVector) != 0) {
        head = count;
    }
    for (std::uint64_t i = lane; i < head; i += kWarp) {
        to[i] = convert(from[i]);
    }
    const std::uint64_t groups = (count - head) / kGroup;
    const From* const source = from + head;
    To* const target = to + head;
    for (std::uint64_t group = lane; group < groups; group += kBatch * kWarp) {
        alignas(kVector) From in[kBatch][kGroup];
        HVD_UNROLL
        for (unsigned k = 0; k < kBatch; ++k) {
            const std::uint64_t at = group + k * kWarp;
            if (at < groups) {
                HVD_UNROLL
                for (unsigned r = 0; r < kReads; ++r) {
                    const auto vector =
                        load<Vector>(source + at * kGroup + r * (kVector / sizeof(From)));
                    std::memcpy(in[k] + r * (kVector / sizeof(From)), &vector, kVector);
                }
            }
        }
        HVD_UNROLL
        for (unsigned k = 0; k < kBatch; ++k) {
            const std::uint64_t at = group + k * kWarp;
            if (at < groups) {
                std::uint32_t out[kWrites * kVector / sizeof(std::uint32_t)];
                HVD_UNROLL
                for (unsigned e = 0; e < kGroup; ++e) {
                    put(convert(in[k][e]), out, e);
                }
                HVD_UNROLL
                for (unsigned w = 0; w < kWrites; ++w) {
                    Vector vector{};
                    std::memcpy(&vector, out + w * (kVector / sizeof(std::uint32_t)), kVector);
                    store(vector, target + at * kGroup + w * (kVector / sizeof(To)));
                }
            }
        }
    }
    for (std::uint64_t i = head + groups * kGroup + lane; i < count; i += kWarp) {
        to[i] = convert(from[i]);
    }
}

/// The same for bytes as they are, with the widest accesses that both sides are aligned to
/// together.
template <class Word>
HVD_DEVICE void copy_words(const std::byte* from,
                           std::byte* to,
                           std::uint64_t bytes,
                           unsigned lane) {
    std::uint64_t head = bytes_to_aligned(to, sizeof(Word));
    head = head < bytes ? head : bytes;
    if (lane < head) {
        to[lane] = from[lane];
    }
    const std::uint64_t words = (bytes - head) / sizeof(Word);
    constexpr unsigned kBatch = 4;
    for (std::uint64_t word = lane; word < words; word += kBatch * kWarp) {
        Word in[kBatch];
        HVD_UNROLL
        for (unsigned k = 0; k < kBatch; ++k) {
            const std::uint64_t at = word + k * kWarp;
            if (at < words) {
                in[k] = load<Word>(from + head + at * sizeof(Word));
            }
        }
        HVD_UNROLL
        for (unsigned k = 0; k < kBatch; ++k) {
            const std::uint64_t at = word + k * kWarp;
            if (at < words) {
                store(in[k], to + head + at * sizeof(Word));
            }
        }
    }
    for (std::uint64_t i = head + words * sizeof(Word) + lane; i < bytes; i += kWarp) {
        to[i] = from[i];
    }
}

HVD_DEVICE void copy_piece(const std::byte* from,
                           std::byte* to,
                           std::uint64_t bytes,
                           unsigned lane) {
    const auto apart =
        reinterpret_cast<std::uintptr_t>(from) ^ reinterpret_cast<std::uintptr_t>(to);
    if (apart % 16 == 0) {
        copy_words<Vector>(from, to, bytes, lane);
    } else if (apart % 8 == 0) {
        copy_words<std::uint64_t>(from, to, bytes, lane);
    } else if (apart % 4 == 0) {
        copy_words<std::uint32_t>(from, to, bytes, lane);
    } else if (apart % 2 == 0) {
        copy_words<std::uint16_t>(from, to, bytes, lane);
    } else {
        copy_words<std::uint8_t>(from, to, bytes, lane);
    }
}

/// The first tensor that ends after `begin`.
HVD_DEVICE std::uint64_t first_entry(const PackArguments& arguments, std::uint64_t begin) {
    std::uint64_t low = 0;
    std::uint64_t high = arguments.entry_count;
    while (low < high) {
        const std::uint64_t middle = (low + high) / 2;
        const PackEntry& entry = arguments.entries[middle];
        if (entry.offset + entry.count > begin) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/// Calls piece(entry, first element of it, where that is in the buffer, count) for every part of a
/// tensor in the tiles of this warp.
template <class Piece>
HVD_DEVICE void for_each_piece(const PackArguments& arguments,
                               std::uint64_t warp,
                               std::uint64_t warps,
                               const Piece& piece) {
    for (std::uint64_t begin = warp * arguments.tile; begin < arguments.total;
         begin += warps * arguments.tile) {
        const std::uint64_t end = begin + arguments.tile;
        for (std::uint64_t index = first_entry(arguments, begin); index < arguments.entry_count;
             ++index) {
            const PackEntry entry = arguments.entries[index];
            if (entry.offset >= end) {
                break;
            }
            const std::uint64_t from = entry.offset > begin ? entry.offset : begin;
            const std::uint64_t last = entry.offset + entry.count;
            const std::uint64_t to = last < end ? last : end;
            if (from < to) {
                piece(entry.tensor, from - entry.offset, from, to - from);
            }
        }
    }
}

/// What one thread of hvd_convert_<From>_<To> does.
template <class From, class To>
HVD_DEVICE void convert(const PackArguments& arguments,
                        std::uint64_t warp,
                        std::uint64_t warps,
                        unsigned lane) {
    const Convert<From, To> one{arguments.factor, arguments.divisor};
    const bool is_pack = arguments.is_pack != 0;
    for_each_piece(
        arguments, warp, warps,
        [&](std::byte* tensor, std::uint64_t inside, std::uint64_t fused, std::uint64_t count) {
            const std::byte* from = is_pack ? tensor : arguments.fused;
            std::byte* to = is_pack ? arguments.fused : tensor;
            convert_piece(reinterpret_cast<const From*>(from) + (is_pack ? inside : fused),
                          reinterpret_cast<To*>(to) + (is_pack ? fused : inside), count, one, lane);
        });
}

/// What one thread of hvd_copy does.
HVD_DEVICE void copy(const PackArguments& arguments,
                     std::uint64_t warp,
                     std::uint64_t warps,
                     unsigned lane) {
    const bool is_pack = arguments.is_pack != 0;
    for_each_piece(
        arguments, warp, warps,
        [&](std::byte* tensor, std::uint64_t inside, std::uint64_t fused, std::uint64_t count) {
            std::byte* const in_tensor = tensor + inside;
            std::byte* const in_fused = arguments.fused + fused;
            copy_piece(is_pack ? in_tensor : in_fused, is_pack ? in_fused : in_tensor, count, lane);
        });
}

}  // namespace hvd::coll::cuda::device
// NOLINTEND(bugprone-sizeof-expression, bugprone-signed-char-misuse)
// NOLINTEND(bugprone-implicit-widening-of-multiplication-result)
// NOLINTEND(modernize-avoid-c-arrays, readability-identifier-naming)
