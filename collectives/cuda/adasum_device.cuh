// SPDX-License-Identifier: Apache-2.0
//
// Adasum of two fused gradients: what one thread of a kernel does. Compiled by nvcc for GPUs and,
// as the kernels' twins, by the compiler of the host.
//
// Dot products are sums of float64 in one order, whatever the GPU: each lane of a warp adds up its
// elements of a chunk, then those of all chunks of the tensor; the kernel that combines adds up the
// lanes. So two ranks that combine the same gradients get the same bits. Lanes exchange nothing.
#pragma once

#include "collectives/cuda/adasum_arguments.hpp"
#include "collectives/cuda/pack_device.cuh"

// NOLINTBEGIN(modernize-avoid-c-arrays, bugprone-implicit-widening-of-multiplication-result)
namespace hvd::coll::cuda::device {

/// The tensor of a chunk.
HVD_DEVICE AdasumEntry adasum_entry(const AdasumArguments& arguments,
                                    std::uint64_t chunk,
                                    std::uint64_t& index) {
    std::uint64_t low = 0;  // the last that begins at the chunk or before is in [low, high)
    std::uint64_t high = arguments.entry_count;
    while (high - low > 1) {
        const std::uint64_t middle = (low + high) / 2;
        if (arguments.entries[middle].first_chunk <= chunk) {
            low = middle;
        } else {
            high = middle;
        }
    }
    index = low;
    return arguments.entries[low];
}

/// The elements of a chunk.
struct AdasumRange {
    std::uint64_t begin;
    std::uint64_t end;
};

HVD_DEVICE AdasumRange adasum_range(const AdasumEntry& entry, std::uint64_t chunk) {
    const std::uint64_t begin = entry.offset + (chunk - entry.first_chunk) * kAdasumChunk;
    const std::uint64_t last = entry.offset + entry.count;
    return {begin, begin + kAdasumChunk < last ? begin + kAdasumChunk : last};
}

/// What one thread of hvd_adasum_dots_<T> does.
template <class T>
HVD_DEVICE void adasum_dots(const AdasumArguments& arguments,
                            std::uint64_t warp,
                            std::uint64_t warps,
                            unsigned lane) {
    const T* const left = reinterpret_cast<const T*>(arguments.left);
    const T* const right = reinterpret_cast<const T*>(arguments.right);
    constexpr unsigned kBatch = 8;  // loads in flight
    for (std::uint64_t chunk = warp; chunk < arguments.chunk_count; chunk += warps) {
        std::uint64_t index = 0;
        const AdasumEntry entry = adasum_entry(arguments, chunk, index);
        const AdasumRange range = adasum_range(entry, chunk);
        double ab = 0;
        double aa = 0;
        double bb = 0;
        std::uint64_t i = range.begin + lane;
        for (; i + (kBatch - 1) * kWarp < range.end; i += kBatch * kWarp) {
            T a[kBatch];
            T b[kBatch];
            HVD_UNROLL
            for (unsigned k = 0; k < kBatch; ++k) {
                a[k] = left[i + k * kWarp];
                b[k] = right[i + k * kWarp];
            }
            HVD_UNROLL
            for (unsigned k = 0; k < kBatch; ++k) {
                ab += static_cast<double>(a[k]) * static_cast<double>(b[k]);
                aa += static_cast<double>(a[k]) * static_cast<double>(a[k]);
                bb += static_cast<double>(b[k]) * static_cast<double>(b[k]);
            }
        }
        for (; i < range.end; i += kWarp) {
            const double a = left[i];
            const double b = right[i];
            ab += a * b;
            aa += a * a;
            bb += b * b;
        }
        double* const sums = arguments.partials + chunk * kAdasumSums + lane;
        sums[0] = ab;
        sums[kWarp] = aa;
        sums[2 * kWarp] = bb;
    }
}

/// What one thread of hvd_adasum_totals does.
HVD_DEVICE void adasum_totals(const AdasumArguments& arguments,
                              std::uint64_t warp,
                              std::uint64_t warps,
                              unsigned lane) {
    for (std::uint64_t index = warp; index < arguments.entry_count; index += warps) {
        const AdasumEntry entry = arguments.entries[index];
        const std::uint64_t chunks = (entry.count + kAdasumChunk - 1) / kAdasumChunk;
        double ab = 0;
        double aa = 0;
        double bb = 0;
        for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
            const double* const part =
                arguments.partials + (entry.first_chunk + chunk) * kAdasumSums + lane;
            ab += part[0];
            aa += part[kWarp];
            bb += part[2 * kWarp];
        }
        double* const sums = arguments.totals + index * kAdasumSums + lane;
        sums[0] = ab;
        sums[kWarp] = aa;
        sums[2 * kWarp] = bb;
    }
}

HVD_DEVICE double adasum_factor(double product, double square) {
    return square == 0 ? 1 : 1 - product / (2 * square);
}

/// What one thread of hvd_adasum_combine_<T> does.
template <class T>
HVD_DEVICE void adasum_combine(const AdasumArguments& arguments,
                               std::uint64_t warp,
                               std::uint64_t warps,
                               unsigned lane) {
    const T* const left = reinterpret_cast<const T*>(arguments.left);
    const T* const right = reinterpret_cast<const T*>(arguments.right);
    T* const result = reinterpret_cast<T*>(arguments.result);
    for (std::uint64_t chunk = warp; chunk < arguments.chunk_count; chunk += warps) {
        std::uint64_t index = 0;
        const AdasumEntry entry = adasum_entry(arguments, chunk, index);
        const AdasumRange range = adasum_range(entry, chunk);
        const double* const sums = arguments.totals + index * kAdasumSums;
        double ab = 0;
        double aa = 0;
        double bb = 0;
        for (unsigned other = 0; other < kWarp; ++other) {
            ab += sums[other];
            aa += sums[kWarp + other];
            bb += sums[2 * kWarp + other];
        }
        const double of_left = adasum_factor(ab, aa);
        const double of_right = adasum_factor(ab, bb);
        for (std::uint64_t i = range.begin + lane; i < range.end; i += kWarp) {
            result[i] = static_cast<T>(of_left * static_cast<double>(left[i]) +
                                       of_right * static_cast<double>(right[i]));
        }
    }
}

}  // namespace hvd::coll::cuda::device
// NOLINTEND(modernize-avoid-c-arrays, bugprone-implicit-widening-of-multiplication-result)
