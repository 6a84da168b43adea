// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/gpu_shares.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace hvd::launch {
namespace {

constexpr std::string_view kMig = "MIG-";

/// The GPUs that an entry of a mask names.
struct Match {
    std::optional<Gpu> gpu;
    bool is_mig = false;
};

Match find_mig(std::span<const Gpu> all, std::string_view token) {
    // The old form, MIG-GPU-<uuid>/..., names its GPU; of the new one only the driver knows it.
    Gpu part{.index = 0, .uuid = std::string(token), .name = "MIG", .memory_bytes = 0, .cpus = {}};
    const auto parent = token.substr(kMig.size(), token.find('/') - kMig.size());
    if (parent.starts_with("GPU-")) {
        const auto gpu = std::ranges::find(all, parent, &Gpu::uuid);
        if (gpu == all.end()) {
            return {};
        }
        part.index = gpu->index;
        part.cpus = gpu->cpus;
    }
    return {.gpu = part, .is_mig = true};
}

Match find_gpu(std::span<const Gpu> all, std::string_view token) {
    if (token.starts_with(kMig)) {
        return find_mig(all, token);
    }
    if (const auto index = parse_number<int>(token)) {
        const auto gpu = std::ranges::find(all, *index, &Gpu::index);
        return {.gpu = gpu == all.end() ? std::nullopt : std::optional(*gpu)};
    }
    if (!token.starts_with("GPU-")) {
        return {};
    }
    const auto has_prefix = [&](const Gpu& gpu) { return gpu.uuid.starts_with(token); };
    const auto gpu = std::ranges::find_if(all, has_prefix);
    const bool is_unique = std::ranges::count_if(all, has_prefix) == 1;
    return {.gpu = is_unique ? std::optional(*gpu) : std::nullopt};
}

/// Values that people write when they want no GPU at all.
bool means_none(std::string_view mask) noexcept {
    return mask.empty() || mask == "-1" || mask == "NoDevFiles" || mask == "none" || mask == "void";
}

std::string count(std::size_t number, std::string_view thing) {
    return std::to_string(number) + " " + std::string(thing) + (number == 1 ? "" : "s");
}

Error too_few(const BindingOptions& binding,
              const std::string& host,
              std::size_t gpus,
              std::size_t ranks) {
    const auto each = static_cast<std::size_t>(binding.gpus_per_rank);
    std::string text = host + ": " + count(ranks, "rank") +
                       (each > 1 ? " with " + count(each, "GPU") + " each" : "") + ", but " +
                       (gpus == 0 ? "no GPU" : "only " + count(gpus, "GPU"));
    if (gpus == 0) {
        return {Errc::invalid_argument, text + "; leave --gpus-per-rank out to use CPUs"};
    }
    const auto most = gpus / each;
    return {Errc::invalid_argument,
            text + "; " +
                (most > 0 ? "start at most " + std::to_string(most) + " there, or use "
                          : "ask for fewer GPUs per rank, or use ") +
                "--share-gpus (ranks share GPUs), --gpu-bind none (ranks choose themselves) or "
                "CUDA_VISIBLE_DEVICES= (CPU only)"};
}

bool is_index(const VisibleGpu& visible) noexcept {
    return visible.token.empty() || parse_number<int>(visible.token).has_value();
}

/// How CUDA_VISIBLE_DEVICES names the GPU: as the mask did, else by its index, or by its UUID where
/// the user's CUDA_DEVICE_ORDER gives indices another meaning.
std::string name_of(const VisibleGpu& visible, const Environment& present) {
    if (!visible.token.empty()) {
        return visible.token;
    }
    const auto order = find(present, kDeviceOrder);
    const bool is_pci = !order || *order == kPciOrder;
    return is_pci || visible.gpu.uuid.empty() ? std::to_string(visible.gpu.index)
                                              : visible.gpu.uuid;
}

void set_where_it_differs(Environment& env,
                          std::string_view name,
                          const std::string& value,
                          const Environment& present) {
    if (find(present, name) != value) {
        env.insert_or_assign(std::string(name), value);
    }
}

}  // namespace

VisibleGpus apply_gpu_mask(std::span<const Gpu> all, const std::optional<std::string>& mask) {
    VisibleGpus visible{.mask = mask};
    if (!mask) {
        for (const auto& gpu : all) {
            visible.gpus.push_back({.gpu = gpu, .token = ""});
        }
        return visible;
    }
    visible.is_cpu_only = means_none(trim(*mask));
    if (visible.is_cpu_only || all.empty()) {
        return visible;
    }
    for (const auto part : split(*mask, ',')) {
        const auto token = trim(part);
        const auto match = find_gpu(all, token);
        const bool is_repeated =
            match.gpu && std::ranges::any_of(visible.gpus, [&](const VisibleGpu& other) {
                return match.is_mig ? other.token == token : other.gpu == *match.gpu;
            });
        if (!match.gpu || is_repeated) {
            if (token != "-1") {
                visible.warnings.push_back(
                    std::string(kVisibleDevices) + "=" + *mask + ": '" + std::string(token) +
                    (is_repeated ? "' names a GPU a second time" : "' names no GPU") +
                    "; CUDA ignores it and what follows it");
            }
            break;
        }
        visible.has_mig = visible.has_mig || match.is_mig;
        visible.gpus.push_back({.gpu = *match.gpu, .token = std::string(token)});
    }
    return visible;
}

int count_slots(const BindingOptions& binding, const HostFacts& facts, const VisibleGpus& visible) {
    const bool uses_gpus = binding.gpus != GpuBind::none && !binding.share_gpus;
    const auto by_gpus =
        visible.gpus.size() / static_cast<std::size_t>(std::max(1, binding.gpus_per_rank));
    const auto slots = uses_gpus && by_gpus > 0 ? by_gpus : facts.cpus.size();
    return std::max(1, static_cast<int>(slots));
}

std::optional<std::string> gpu_mask(const Environment& env_set, const HostFacts& facts) {
    auto own = find(env_set, kVisibleDevices);
    return own ? own : facts.gpu_mask;
}

Result<std::vector<GpuShare>> share_gpus(const BindingOptions& binding,
                                         const std::string& host,
                                         const VisibleGpus& visible,
                                         int ranks,
                                         const Environment& present) {
    std::vector<GpuShare> shares(static_cast<std::size_t>(ranks));
    if (visible.mask) {
        for (auto& share : shares) {
            set_where_it_differs(share.env, kVisibleDevices, *visible.mask, present);
        }
    }
    if (binding.share_gpus && !present.contains(kGpuOperations)) {
        // Of all ranks, also of those that have a GPU to themselves: all take the same way.
        for (auto& share : shares) {
            share.env.emplace(kGpuOperations, "host");
        }
    }
    const auto each = static_cast<std::size_t>(binding.gpus_per_rank);
    const auto gpus = visible.gpus.size();
    const bool is_cpu_job =
        gpus == 0 && (each == 1 || binding.may_lack_gpus || visible.is_cpu_only);
    if (binding.gpus == GpuBind::none || ranks == 0 || is_cpu_job) {
        return shares;
    }
    if (gpus < each || (gpus < each * shares.size() && !binding.share_gpus)) {
        return too_few(binding, host, gpus, shares.size());
    }
    if (visible.has_mig && gpus > 1 && binding.gpus == GpuBind::index) {
        return Error{Errc::invalid_argument,
                     host + ": CUDA shows a process only the first of the " +
                         count(gpus, "MIG device") + " in " + std::string(kVisibleDevices) +
                         "; use --gpu-bind env, which gives each rank its own"};
    }
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
        auto& share = shares[rank];
        std::vector<std::string> names;
        bool has_index = false;
        for (std::size_t index = 0; index < each; ++index) {
            const auto& own = visible.gpus[(rank * each + index) % gpus];
            share.gpus.push_back(own.gpu);
            names.push_back(name_of(own, present));
            has_index = has_index || is_index(own);
        }
        if (binding.gpus == GpuBind::env) {
            set_where_it_differs(share.env, kVisibleDevices, join(names, ","), present);
        }
        if (has_index && !present.contains(kDeviceOrder)) {
            share.env.emplace(kDeviceOrder, kPciOrder);
        }
    }
    return shares;
}

}  // namespace hvd::launch
