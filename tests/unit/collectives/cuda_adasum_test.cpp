// SPDX-License-Identifier: Apache-2.0
//
// The kernels of Adasum, run by their twins on the host.
#include "collectives/reduce/adasum.hpp"
#include "tests/support/gpu/pack_twin.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <string>
#include <vector>

using hvd::coll::DataType;
using hvd::coll::cuda::AdasumArguments;
using hvd::coll::cuda::AdasumEntry;
using hvd::coll::cuda::kAdasumChunk;
using hvd::coll::cuda::kAdasumSums;
using hvd::test::gpu::find_kernel;

namespace {

/// Tensors of these lengths, with a gap behind each.
struct Tensors {
    explicit Tensors(const std::vector<std::uint64_t>& lengths) {
        for (const auto length : lengths) {
            entries.push_back({.offset = total, .count = length, .first_chunk = chunks});
            chunks += (length + kAdasumChunk - 1) / kAdasumChunk;
            total += length + 3;
        }
    }

    std::vector<AdasumEntry> entries;
    std::uint64_t chunks = 0;
    std::uint64_t total = 0;
};

template <class T>
std::vector<T> gradient(std::uint64_t count, std::uint64_t seed) {
    std::vector<T> values(count);
    for (std::uint64_t index = 0; index < count; ++index) {
        values[index] = static_cast<T>((index * 7 + seed * 13 + index * seed) % 31) - T{15};
    }
    return values;
}

template <class T>
std::byte* bytes(std::vector<T>& values) {
    return reinterpret_cast<std::byte*>(values.data());
}

template <class T>
void combine(const Tensors& tensors, std::vector<T>& left, std::vector<T>& right, bool into_left) {
    const std::string type = sizeof(T) == sizeof(float) ? "f32" : "f64";
    std::vector<double> sums(kAdasumSums * (tensors.chunks + tensors.entries.size()));
    const AdasumArguments arguments{.entries = tensors.entries.data(),
                                    .left = bytes(left),
                                    .right = bytes(right),
                                    .result = bytes(into_left ? left : right),
                                    .partials = sums.data(),
                                    .totals = sums.data() + kAdasumSums * tensors.chunks,
                                    .entry_count = tensors.entries.size(),
                                    .chunk_count = tensors.chunks};
    const auto blocks = static_cast<unsigned>(GENERATE(1, 3));
    for (const auto& name : {"hvd_adasum_dots_" + type, std::string("hvd_adasum_totals"),
                             "hvd_adasum_combine_" + type}) {
        REQUIRE(find_kernel(name) != nullptr);
        find_kernel(name)->run_adasum(arguments, blocks, 64);
    }
}

template <class T>
void check(DataType type) {
    const Tensors tensors({1, 31, 32, 33, kAdasumChunk - 1, kAdasumChunk, kAdasumChunk + 1,
                           3 * kAdasumChunk + 300, 257});
    auto left = gradient<T>(tensors.total, 1);
    auto right = gradient<T>(tensors.total, 2);
    auto expected = left;
    const hvd::coll::Adasum adasum({.reduce = hvd::coll::ReduceOp::adasum, .type = type});
    for (const auto& entry : tensors.entries) {
        auto* const a = reinterpret_cast<std::byte*>(left.data() + entry.offset);
        auto* const b = reinterpret_cast<std::byte*>(right.data() + entry.offset);
        const auto dots = adasum.dots(a, b, entry.count);
        adasum.combine(dots, a, b, reinterpret_cast<std::byte*>(expected.data() + entry.offset),
                       entry.count);
    }
    auto other_left = left;
    auto other_right = right;

    combine(tensors, left, right, true);
    combine(tensors, other_left, other_right, false);

    // Sums of such integers are exact in any order, and so are the bits; gaps are left alone.
    CHECK(left == expected);
    for (const auto& entry : tensors.entries) {
        const auto begin = static_cast<std::ptrdiff_t>(entry.offset);
        const auto end = begin + static_cast<std::ptrdiff_t>(entry.count);
        CHECK(std::vector<T>(left.begin() + begin, left.begin() + end) ==
              std::vector<T>(other_right.begin() + begin, other_right.begin() + end));
    }
}

}  // namespace

TEST_CASE("Adasum on a GPU gives the bits of the host's, each tensor by itself, on either side") {
    check<float>(DataType::f32);
    check<double>(DataType::f64);
}
