// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/adasum_kernels.hpp"

#include "collectives/cuda/gpu.hpp"

#include <algorithm>
#include <vector>

namespace hvd::coll::cuda {
namespace {

static_assert(sizeof(AdasumEntry) <= sizeof(PackEntry), "it is in a table of the packer");

constexpr unsigned kThreads = 256;
constexpr unsigned kWarpsOfBlock = kThreads / kWarp;
constexpr unsigned kBlocksOfProcessor = 8;

}  // namespace

AdasumKernels::AdasumKernels(Gpu& gpu, DataType type, std::span<const PackEntry> places)
    : gpu_(gpu), type_(type) {
    std::vector<AdasumEntry> entries;
    for (const auto& place : places) {
        if (place.count != 0) {
            entries.push_back({.offset = place.offset,
                               .count = place.count,
                               .first_chunk = arguments_.chunk_count});
            arguments_.chunk_count += (place.count + kAdasumChunk - 1) / kAdasumChunk;
        }
    }
    arguments_.entry_count = entries.size();
    const auto sums = kAdasumSums * (arguments_.chunk_count + arguments_.entry_count);
    sums_ = gpu.memory().allocate(sums * sizeof(double));
    arguments_.partials = reinterpret_cast<double*>(sums_.get());
    arguments_.totals = arguments_.partials + kAdasumSums * arguments_.chunk_count;
    arguments_.entries = reinterpret_cast<const AdasumEntry*>(
        gpu.packer().load(std::as_bytes(std::span<const AdasumEntry>(entries))));
}

void AdasumKernels::combine(const std::byte* left, const std::byte* right, std::byte* result) {
    arguments_.left = left;
    arguments_.right = right;
    arguments_.result = result;
    auto& packer = gpu_.packer();
    const auto run = [&](const char* kernel, std::uint64_t warps) {
        const auto blocks = std::min<std::uint64_t>(
            (warps + kWarpsOfBlock - 1) / kWarpsOfBlock,
            std::uint64_t{std::max(1U, packer.processors())} * kBlocksOfProcessor);
        packer.launch(kernel, static_cast<unsigned>(blocks), kThreads, &arguments_);
    };
    const bool is_double = type_ == DataType::f64;
    run(is_double ? "hvd_adasum_dots_f64" : "hvd_adasum_dots_f32", arguments_.chunk_count);
    run("hvd_adasum_totals", arguments_.entry_count);
    run(is_double ? "hvd_adasum_combine_f64" : "hvd_adasum_combine_f32", arguments_.chunk_count);
}

void AdasumKernels::finish() {
    gpu_.packer().unload();
    sums_.reset();  // in the order of the stream
}

}  // namespace hvd::coll::cuda
