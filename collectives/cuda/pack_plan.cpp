// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/pack_plan.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace hvd::coll::cuda {
namespace {

using enum DataType;

struct Kernel {
    DataType from;
    DataType to;
    std::string_view name;
};

#define HVD_PACK_ROW(from, to) Kernel{from, to, "hvd_convert_" #from "_" #to},
constexpr std::array kKernels{HVD_PACK_KERNELS(HVD_PACK_ROW)};
#undef HVD_PACK_ROW

constexpr unsigned kThreads = 256;
constexpr unsigned kWarpsOfProcessor = 32;     // 70 registers a thread leave room for no more
constexpr std::uint64_t kSmallestTile = 2048;  // bytes: four accesses of each lane
constexpr std::uint64_t kLargestTile = 65536;

std::uint64_t divided_up(std::uint64_t value, std::uint64_t by) noexcept {
    return (value + by - 1) / by;
}

}  // namespace

bool is_copy(const PackChange& change) noexcept {
    return change.from == change.to && change.factor == 1 && change.divisor == 1;
}

std::optional<std::string_view> pack_kernel(const PackChange& change) noexcept {
    if (is_copy(change)) {
        return "hvd_copy";
    }
    const auto* const kernel = std::ranges::find_if(kKernels, [&](const Kernel& one) {
        return one.from == change.from && one.to == change.to;
    });
    return kernel == kKernels.end() ? std::nullopt : std::optional(kernel->name);
}

std::uint64_t lay_out(std::span<PackEntry> entries, std::size_t element_bytes) noexcept {
    constexpr std::uint64_t kAlignment = 16;
    const std::uint64_t step = std::max<std::uint64_t>(1, kAlignment / element_bytes);
    std::uint64_t next = 0;
    std::uint64_t end = 0;
    for (auto& entry : entries) {
        entry.offset = next;
        end = next + entry.count;
        next = divided_up(end, step) * step;
    }
    return end;
}

std::optional<PackLaunch> plan_pack(const PackChange& change,
                                    bool is_pack,
                                    std::span<const PackEntry> entries,
                                    const PackEntry* table,
                                    std::byte* fused,
                                    unsigned processors) noexcept {
    const auto kernel = pack_kernel(change);
    if (!kernel) {
        return std::nullopt;
    }
    const auto element_bytes =
        is_copy(change) ? std::size_t{1} : size_of(is_pack ? change.to : change.from);
    PackLaunch launch{.kernel = *kernel, .blocks = 0, .threads = kThreads, .arguments = {}};
    auto& arguments = launch.arguments;
    arguments.entries = table;
    arguments.fused = fused;
    arguments.entry_count = entries.size();
    arguments.total = entries.empty() ? 0 : entries.back().offset + entries.back().count;
    arguments.factor = change.factor;
    arguments.divisor = change.divisor;
    arguments.is_pack = is_pack ? 1 : 0;

    // As many tiles as there are warps at a time, or a few times as many: a tile that is too small
    // pays for its bisection, too large a one leaves warps idle at the end.
    const std::uint64_t warps = std::uint64_t{std::max(1U, processors)} * kWarpsOfProcessor;
    const std::uint64_t share = arguments.total * element_bytes / (2 * warps);
    const auto tile_bytes =
        std::clamp(std::bit_floor(std::max<std::uint64_t>(1, share)), kSmallestTile, kLargestTile);
    arguments.tile = tile_bytes / element_bytes;
    const auto tiles = divided_up(arguments.total, arguments.tile);
    launch.blocks = static_cast<unsigned>(divided_up(std::min(tiles, warps), kThreads / kWarp));
    return launch;
}

}  // namespace hvd::coll::cuda
