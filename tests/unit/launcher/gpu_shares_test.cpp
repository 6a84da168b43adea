// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/gpu_shares.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

using hvd::Environment;
using hvd::launch::apply_gpu_mask;
using hvd::launch::BindingOptions;
using hvd::launch::Gpu;
using hvd::launch::gpu_mask;
using hvd::launch::GpuBind;
using hvd::launch::GpuShare;
using hvd::launch::HostFacts;
using hvd::launch::share_gpus;

namespace {

std::vector<Gpu> four_gpus() {
    std::vector<Gpu> gpus(4);
    for (int index = 0; index < 4; ++index) {
        gpus[static_cast<std::size_t>(index)] = {
            .index = index,
            .uuid = "GPU-" + std::string(1, static_cast<char>('a' + index)) + "000",
            .name = "H200",
            .memory_bytes = 1,
            .cpus = {}};
    }
    return gpus;
}

/// GPU 0, two MIG devices of GPU 1, and one of GPU 2.
std::vector<Gpu> divided_gpus() {
    auto gpus = four_gpus();
    for (const auto device : {1U, 2U, 3U}) {
        auto& part = gpus[device];
        part.index = device < 3 ? 1 : 2;
        part.parent = device < 3 ? "GPU-b000" : "GPU-c000";
        part.uuid = "MIG-" + std::to_string(device);
    }
    return gpus;
}

std::vector<std::string> masks(const std::vector<GpuShare>& shares) {
    std::vector<std::string> found;
    for (const auto& share : shares) {
        found.push_back(share.env.at("CUDA_VISIBLE_DEVICES"));
    }
    return found;
}

std::vector<int> indices(const std::vector<Gpu>& gpus) {
    std::vector<int> found;
    std::ranges::transform(gpus, std::back_inserter(found), &Gpu::index);
    return found;
}

std::vector<int> visible(const std::optional<std::string>& mask) {
    std::vector<Gpu> gpus;
    for (const auto& found : apply_gpu_mask(four_gpus(), mask).gpus) {
        gpus.push_back(found.gpu);
    }
    return indices(gpus);
}

/// The shares of the ranks of a host with four GPUs.
hvd::Result<std::vector<GpuShare>> share(int ranks,
                                         const std::optional<std::string>& mask,
                                         const BindingOptions& binding = {},
                                         Environment present = {},
                                         const Environment& env_set = {}) {
    HostFacts facts;
    facts.hostname = "h";
    facts.gpus = four_gpus();
    facts.gpu_mask = mask;
    if (mask && !present.contains("CUDA_VISIBLE_DEVICES")) {
        present.emplace("CUDA_VISIBLE_DEVICES", *mask);
    }
    const auto seen = apply_gpu_mask(facts.gpus, gpu_mask(env_set, facts));
    return share_gpus(binding, facts.hostname, seen, ranks, present);
}

BindingOptions with(GpuBind gpus, int gpus_per_rank = 1, bool share_them = false) {
    return {.gpus = gpus,
            .gpus_per_rank = gpus_per_rank,
            .may_lack_gpus = gpus_per_rank == 1,
            .share_gpus = share_them};
}

}  // namespace

TEST_CASE("a mask is read as CUDA reads it") {
    CHECK(visible(std::nullopt) == std::vector{0, 1, 2, 3});
    CHECK(visible("2,0") == std::vector{2, 0});
    CHECK(visible(" 1 , 3 ") == std::vector{1, 3});
    CHECK(visible("GPU-c000,GPU-a000") == std::vector{2, 0});
    CHECK(visible("GPU-d") == std::vector{3});  // the beginning of one UUID
    CHECK(visible("GPU-").empty());             // of several
    CHECK(visible("0,9,1") == std::vector{0});  // CUDA stops at the first bad entry
    CHECK(visible("0,-1,1") == std::vector{0});
    CHECK(visible("1,1,2") == std::vector{1});
    CHECK(visible("0,GPU-a000") == std::vector{0});
    CHECK(visible("x").empty());
}

TEST_CASE("an empty mask means CPU only, and so do the other ways to say it") {
    const auto* mask = GENERATE("", " ", "-1", "NoDevFiles");
    CAPTURE(mask);

    const auto found = apply_gpu_mask(four_gpus(), mask);

    CHECK(found.is_cpu_only);
    CHECK(found.gpus.empty());
    CHECK(found.warnings.empty());
}

TEST_CASE("a mask that names what is not there is warned about, where we know the GPUs") {
    CHECK(apply_gpu_mask(four_gpus(), "0,9,1").warnings ==
          std::vector<std::string>{"CUDA_VISIBLE_DEVICES=0,9,1: '9' names no GPU; CUDA ignores it "
                                   "and what follows it"});
    CHECK(apply_gpu_mask(four_gpus(), "1,1").warnings ==
          std::vector<std::string>{"CUDA_VISIBLE_DEVICES=1,1: '1' names a GPU a second time; CUDA "
                                   "ignores it and what follows it"});
    CHECK(apply_gpu_mask({}, "0").warnings.empty());
}

TEST_CASE("index: rank r owns GPU r of those that may be seen, and all stay visible") {
    const auto plain = share(2, std::nullopt);
    const auto masked = share(2, "3,1");

    REQUIRE(plain);
    CHECK(indices((*plain)[0].gpus) == std::vector{0});
    CHECK(indices((*plain)[1].gpus) == std::vector{1});
    CHECK((*plain)[1].env == Environment{{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}});
    REQUIRE(masked);
    CHECK(indices((*masked)[0].gpus) == std::vector{3});
    CHECK(indices((*masked)[1].gpus) == std::vector{1});
    CHECK((*masked)[0].env == Environment{{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}});
}

TEST_CASE("env: a rank sees only its own GPU, named as the mask names it") {
    const auto plain = share(2, std::nullopt, with(GpuBind::env));
    const auto masked = share(2, "3,1", with(GpuBind::env));
    const auto by_uuid = share(2, "GPU-d,GPU-b", with(GpuBind::env));

    REQUIRE(plain);
    CHECK((*plain)[1].env ==
          Environment{{"CUDA_VISIBLE_DEVICES", "1"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}});
    REQUIRE(masked);
    CHECK((*masked)[0].env ==
          Environment{{"CUDA_VISIBLE_DEVICES", "3"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}});
    REQUIRE(by_uuid);
    CHECK((*by_uuid)[1].env == Environment{{"CUDA_VISIBLE_DEVICES", "GPU-b"}});
}

TEST_CASE("none: GPUs are left alone") {
    const auto shares = share(8, std::nullopt, with(GpuBind::none));

    REQUIRE(shares);
    REQUIRE(shares->size() == 8);
    CHECK((*shares)[7].gpus.empty());
    CHECK((*shares)[7].env.empty());
}

TEST_CASE("a CUDA_DEVICE_ORDER of the user is kept, and no index is named under it") {
    const Environment fastest{{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}};

    const auto index = share(1, std::nullopt, with(GpuBind::index), fastest);
    const auto env = share(1, std::nullopt, with(GpuBind::env), fastest);

    REQUIRE(index);
    CHECK((*index)[0].env.empty());
    REQUIRE(env);
    CHECK((*env)[0].env == Environment{{"CUDA_VISIBLE_DEVICES", "GPU-a000"}});
}

TEST_CASE("several GPUs per rank are neighbours") {
    const auto shares = share(2, std::nullopt, with(GpuBind::env, 2));

    REQUIRE(shares);
    CHECK(indices((*shares)[0].gpus) == std::vector{0, 1});
    CHECK(indices((*shares)[1].gpus) == std::vector{2, 3});
    CHECK((*shares)[1].env.at("CUDA_VISIBLE_DEVICES") == "2,3");
}

TEST_CASE("flag --share-gpus deals GPUs out in turn") {
    const auto shares = share(6, "0,1", with(GpuBind::env, 1, true));

    REQUIRE(shares);
    CHECK((*shares)[4].env.at("CUDA_VISIBLE_DEVICES") == "0");
    CHECK((*shares)[5].env.at("CUDA_VISIBLE_DEVICES") == "1");
    CHECK((*shares)[5].env.at("HOROVOD_GPU_OPERATIONS") == "host");
    CHECK_FALSE((*share(2, "0,1")).front().env.contains("HOROVOD_GPU_OPERATIONS"));
}

TEST_CASE("more ranks than GPUs are refused with both numbers and the remedies") {
    const auto five = share(5, std::nullopt);
    const auto one = share(2, "1");
    const auto pairs = share(3, std::nullopt, with(GpuBind::index, 2));
    const auto too_wide = share(1, "0,1", with(GpuBind::index, 3));

    REQUIRE_FALSE(five);
    CHECK(five.error().message ==
          "h: 5 ranks, but only 4 GPUs; start at most 4 there, or use --share-gpus (ranks share "
          "GPUs), --gpu-bind none (ranks choose themselves) or CUDA_VISIBLE_DEVICES= (CPU only)");
    REQUIRE_FALSE(one);
    CHECK(one.error().message.starts_with("h: 2 ranks, but only 1 GPU; start at most 1 there"));
    REQUIRE_FALSE(pairs);
    CHECK(pairs.error().message.starts_with(
        "h: 3 ranks with 2 GPUs each, but only 4 GPUs; start at most 2 there"));
    REQUIRE_FALSE(too_wide);
    CHECK(too_wide.error().message.starts_with(
        "h: 1 rank with 3 GPUs each, but only 2 GPUs; ask for fewer GPUs per rank"));
}

TEST_CASE("an empty mask makes any number of CPU ranks, whatever was said of GPUs") {
    const auto shares = share(9, "", with(GpuBind::env, 2));

    REQUIRE(shares);
    CHECK((*shares)[8].gpus.empty());
    CHECK((*shares)[8].env.empty());
}

TEST_CASE("GPUs per rank on a host without any are refused") {
    auto binding = with(GpuBind::index, 2);

    const auto shares = share_gpus(binding, "h", {}, 1, {});

    REQUIRE_FALSE(shares);
    CHECK(shares.error().message ==
          "h: 1 rank with 2 GPUs each, but no GPU; leave --gpus-per-rank out to use CPUs");

    const auto one_each = share_gpus({.may_lack_gpus = false}, "h", {}, 2, {});
    REQUIRE_FALSE(one_each);
    CHECK(one_each.error().message ==
          "h: 2 ranks, but no GPU; leave --gpus-per-rank out to use CPUs");

    binding.may_lack_gpus = true;
    CHECK(share_gpus(binding, "h", {}, 1, {}));
}

TEST_CASE("a mask that the ranks would not inherit is given to them") {
    const auto shares = share(1, "2", {}, {{"CUDA_VISIBLE_DEVICES", "other"}});

    REQUIRE(shares);
    CHECK((*shares)[0].env.at("CUDA_VISIBLE_DEVICES") == "2");
}

TEST_CASE("flag --env of a mask takes the place of the one that was there") {
    const Environment env_set{{"CUDA_VISIBLE_DEVICES", "3,2"}};

    const auto shares = share(2, "0", with(GpuBind::env), env_set, env_set);

    REQUIRE(shares);
    CHECK((*shares)[1].env.at("CUDA_VISIBLE_DEVICES") == "2");
}

TEST_CASE("of MIG devices each rank sees one, because CUDA shows a process only the first") {
    constexpr auto kMask = "MIG-1111,MIG-GPU-b000/3/0";

    const auto by_index = share(2, kMask);
    const auto by_env = share(2, kMask, with(GpuBind::env));

    REQUIRE_FALSE(by_index);
    CHECK(by_index.error().message ==
          "h: with --gpu-bind index a rank sees all of the 2 GPUs and MIG devices, but CUDA shows "
          "a process only one MIG device; use --gpu-bind env, which gives each rank its own");
    REQUIRE(by_env);
    CHECK((*by_env)[0].env == Environment{{"CUDA_VISIBLE_DEVICES", "MIG-1111"}});
    CHECK((*by_env)[0].gpus.at(0).uuid == "MIG-1111");
    CHECK((*by_env)[1].env == Environment{{"CUDA_VISIBLE_DEVICES", "MIG-GPU-b000/3/0"}});
    CHECK((*by_env)[1].gpus.at(0).index == 1);
    CHECK(visible("MIG-GPU-zzzz/1/0").empty());
}

TEST_CASE(
    "MIG devices that the driver tells are given by their UUIDs, and whole GPUs beside them") {
    const auto seen = apply_gpu_mask(divided_gpus(), {});

    const auto shares = share_gpus(with(GpuBind::env), "h", seen, 4, {});

    REQUIRE(shares);
    CHECK(masks(*shares) == std::vector<std::string>{"GPU-a000", "MIG-1", "MIG-2", "MIG-3"});
    CHECK(indices((*shares)[2].gpus) == std::vector{1});
    CHECK(count_slots({}, {}, seen) == 4);
}

TEST_CASE("a rank has one MIG device at most") {
    const auto pairs =
        share_gpus(with(GpuBind::env, 2), "h", apply_gpu_mask(divided_gpus(), {}), 1, {});
    const auto index = share_gpus({}, "h", apply_gpu_mask(divided_gpus(), {}), 1, {});
    const auto only_one = share_gpus({}, "h", apply_gpu_mask(divided_gpus(), "MIG-2"), 1, {});

    REQUIRE_FALSE(pairs);
    CHECK(pairs.error().message ==
          "h: --gpus-per-rank 2, but CUDA shows a process only one MIG device; use --gpus-per-rank "
          "1, or GPUs that are not in MIG mode");
    REQUIRE_FALSE(index);
    CHECK(index.error().message.starts_with("h: with --gpu-bind index a rank sees all of the 4 "));
    REQUIRE(only_one);
    CHECK((*only_one)[0].gpus.at(0).uuid == "MIG-2");
    CHECK((*only_one)[0].env.at("CUDA_VISIBLE_DEVICES") == "MIG-2");
}

TEST_CASE("a mask names MIG devices by their UUIDs, and a GPU in MIG mode for its first one") {
    const auto uuids = [](const char* mask) {
        std::vector<std::string> found;
        for (const auto& visible : apply_gpu_mask(divided_gpus(), mask).gpus) {
            found.push_back(visible.gpu.uuid);
        }
        return found;
    };
    using Uuids = std::vector<std::string>;

    CHECK(uuids("MIG-3,MIG-1") == Uuids{"MIG-3", "MIG-1"});
    CHECK(uuids("1,0") == Uuids{"MIG-1", "GPU-a000"});
    CHECK(uuids("GPU-b") == Uuids{"MIG-1"});
    CHECK(uuids("GPU-").empty());
    CHECK(uuids("MIG-3,MIG-3") == Uuids{"MIG-3"});
    CHECK(uuids("MIG-9,MIG-1").empty());  // the driver has told all that there are
    CHECK(uuids("MIG-GPU-b000/1/0") == Uuids{"MIG-GPU-b000/1/0"});
}

TEST_CASE("ranks with MIG devices of one GPU send their tensors through the host") {
    const auto operations = [](const char* mask, const Environment& present) {
        const auto seen = apply_gpu_mask(divided_gpus(), mask);
        const auto shares = share_gpus(with(GpuBind::env), "h", seen, 2, present);
        return hvd::find(shares.value().front().env, "HOROVOD_GPU_OPERATIONS").value_or("");
    };

    CHECK(operations("MIG-1,MIG-2", {}) == "host");
    CHECK(operations("MIG-1,MIG-3", {}).empty());  // of two GPUs
    CHECK(operations("GPU-a000,MIG-1", {}).empty());
    CHECK(operations("MIG-1,MIG-2", {{"HOROVOD_GPU_OPERATIONS", "nccl"}}).empty());
}

TEST_CASE("a host has a slot for as many of its GPUs as a rank owns, else for each CPU") {
    HostFacts facts;
    facts.gpus = four_gpus();
    facts.cpus = {0, 1, 2, 3, 4, 5};
    const auto seen = apply_gpu_mask(facts.gpus, {});

    CHECK(count_slots({}, facts, seen) == 4);
    CHECK(count_slots({.gpus_per_rank = 2}, facts, seen) == 2);
    CHECK(count_slots({.gpus_per_rank = 5}, facts, seen) == 6);
    CHECK(count_slots({.gpus = GpuBind::none}, facts, seen) == 6);
    CHECK(count_slots({.share_gpus = true}, facts, seen) == 6);
}
