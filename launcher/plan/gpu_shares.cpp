// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/gpu_shares.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

namespace hvd::launch {
namespace {

constexpr std::string_view kMig = "MIG-";

/// The UUID of the GPU that it is, or is a part of.
const std::string& uuid_of_gpu(const Gpu& gpu) noexcept {
    return gpu.parent.empty() ? gpu.uuid : gpu.parent;
}

std::optional<Gpu> find_mig(std::span<const Gpu> all, std::string_view token) {
    if (const auto known = std::ranges::find(all, token, &Gpu::uuid); known != all.end()) {
        return *known;
    }
    // The old form, MIG-GPU-<uuid>/..., names its GPU. The new one is trusted where the driver has
    // not told its MIG devices.
    Gpu part{.index = 0, .uuid = std::string(token), .name = "MIG", .memory_bytes = 0, .cpus = {}};
    const auto parent = token.substr(kMig.size(), token.find('/') - kMig.size());
    if (!parent.starts_with("GPU-")) {
        return std::ranges::any_of(all, is_mig) ? std::nullopt : std::optional(part);
    }
    const auto gpu = std::ranges::find(all, parent, uuid_of_gpu);
    if (gpu == all.end()) {
        return std::nullopt;
    }
    part.index = gpu->index;
    part.cpus = gpu->cpus;
    part.parent = parent;
    return part;
}

/// The GPU that an entry of a mask names.
std::optional<Gpu> find_gpu(std::span<const Gpu> all, std::string_view token) {
    if (token.starts_with(kMig)) {
        return find_mig(all, token);
    }
    if (const auto index = parse_number<int>(token)) {
        const auto gpu = std::ranges::find(all, *index, &Gpu::index);
        return gpu == all.end() ? std::nullopt : std::optional(*gpu);
    }
    if (!token.starts_with("GPU-")) {
        return {};
    }
    const auto has_prefix = [&](const Gpu& gpu) { return uuid_of_gpu(gpu).starts_with(token); };
    const auto gpu = std::ranges::find_if(all, has_prefix);
    const bool is_unique = std::ranges::all_of(
        all, [&](const Gpu& other) { return !has_prefix(other) || other.index == gpu->index; });
    return gpu != all.end() && is_unique ? std::optional(*gpu) : std::nullopt;
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
/// the user's CUDA_DEVICE_ORDER or MIG devices give indices another meaning.
std::string name_of(const VisibleGpu& visible, bool has_mig, const Environment& present) {
    if (is_mig(visible.gpu)) {
        return visible.gpu.uuid;
    }
    if (!visible.token.empty()) {
        return visible.token;
    }
    const auto order = find(present, kDeviceOrder);
    const bool is_pci = !has_mig && (!order || *order == kPciOrder);
    return is_pci || visible.gpu.uuid.empty() ? std::to_string(visible.gpu.index)
                                              : visible.gpu.uuid;
}

/// Of MIG devices each rank can be given one, which it alone sees.
Status check_mig(const BindingOptions& binding, const std::string& host, std::size_t gpus) {
    if (binding.gpus_per_rank > 1) {
        return Error{Errc::invalid_argument,
                     host + ": --gpus-per-rank " + std::to_string(binding.gpus_per_rank) +
                         ", but CUDA shows a process only one MIG device; use --gpus-per-rank 1, "
                         "or GPUs that are not in MIG mode"};
    }
    if (binding.gpus == GpuBind::index && gpus > 1) {
        return Error{Errc::invalid_argument,
                     host + ": with --gpu-bind index a rank sees all of the " +
                         std::to_string(gpus) +
                         " GPUs and MIG devices, but CUDA shows a process only one MIG device; "
                         "use --gpu-bind env, which gives each rank its own"};
    }
    return ok();
}

/// Whether two ranks have MIG devices of one GPU. Those of unknown GPUs may be of one.
bool have_parts_of_one_gpu(const std::vector<GpuShare>& shares) {
    std::set<std::string> parents;
    for (const auto& share : shares) {
        for (const auto& gpu : share.gpus) {
            if (is_mig(gpu) && !parents.insert(gpu.parent).second) {
                return true;
            }
        }
    }
    return false;
}

/// Given to all ranks, also to those that have a GPU to themselves: all take the same way.
void let_tensors_travel_through_host(std::vector<GpuShare>& shares, const Environment& present) {
    if (present.contains(kGpuOperations)) {
        return;
    }
    for (auto& share : shares) {
        share.env.emplace(kGpuOperations, "host");
    }
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
            visible.has_mig = visible.has_mig || is_mig(gpu);
        }
        return visible;
    }
    visible.is_cpu_only = means_none(trim(*mask));
    if (visible.is_cpu_only || all.empty()) {
        return visible;
    }
    for (const auto part : split(*mask, ',')) {
        const auto token = trim(part);
        const auto gpu = find_gpu(all, token);
        const bool is_repeated =
            gpu && std::ranges::find(visible.gpus, *gpu, &VisibleGpu::gpu) != visible.gpus.end();
        if (!gpu || is_repeated) {
            if (token != "-1") {
                visible.warnings.push_back(
                    std::string(kVisibleDevices) + "=" + *mask + ": '" + std::string(token) +
                    (is_repeated ? "' names a GPU a second time" : "' names no GPU") +
                    "; CUDA ignores it and what follows it");
            }
            break;
        }
        visible.has_mig = visible.has_mig || is_mig(*gpu);
        visible.gpus.push_back({.gpu = *gpu, .token = std::string(token)});
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
    if (binding.share_gpus) {
        let_tensors_travel_through_host(shares, present);
    }
    const auto each = static_cast<std::size_t>(binding.gpus_per_rank);
    const auto gpus = visible.gpus.size();
    const bool is_cpu_job = gpus == 0 && (binding.may_lack_gpus || visible.is_cpu_only);
    if (binding.gpus == GpuBind::none || ranks == 0 || is_cpu_job) {
        return shares;
    }
    if (visible.has_mig) {
        HVD_TRY_STATUS(check_mig(binding, host, gpus));
    }
    if (gpus < each || (gpus < each * shares.size() && !binding.share_gpus)) {
        return too_few(binding, host, gpus, shares.size());
    }
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
        auto& share = shares[rank];
        std::vector<std::string> names;
        bool has_index = false;
        for (std::size_t index = 0; index < each; ++index) {
            const auto& own = visible.gpus[(rank * each + index) % gpus];
            share.gpus.push_back(own.gpu);
            names.push_back(name_of(own, visible.has_mig, present));
            has_index = has_index || is_index(own);
        }
        if (binding.gpus == GpuBind::env) {
            set_where_it_differs(share.env, kVisibleDevices, join(names, ","), present);
        }
        if (has_index && !present.contains(kDeviceOrder)) {
            share.env.emplace(kDeviceOrder, kPciOrder);
        }
    }
    if (have_parts_of_one_gpu(shares)) {
        let_tensors_travel_through_host(shares, present);
    }
    return shares;
}

}  // namespace hvd::launch
