// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/driver_files.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/agent/probe/folder.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace hvd::launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxText = std::size_t{64} << 10;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr const char* kDriver = "proc/driver/nvidia";

std::vector<Gpu> read_gpus(const fs::path& root) {
    std::vector<Gpu> gpus;
    for (const auto& folder : list_folder(root / kDriver / "gpus")) {  // named by place on the bus
        const auto text = read_file(folder / "information", kMaxText);
        auto gpu = text ? parse_driver_information(*text) : std::nullopt;
        if (!gpu) {
            continue;
        }
        gpu->index = static_cast<int>(gpus.size());
        const auto near =
            read_file(root / "sys/bus/pci/devices" / folder.filename() / "local_cpulist", kMaxText);
        if (near) {
            gpu->cpus = parse_ranges(trim(*near)).value_or(std::vector<int>{});
        }
        gpus.push_back(*std::move(gpu));
    }
    return gpus;
}

/// Whether a GPU has an instance of MIG: capabilities/gpu0/mig/gi1.
bool has_mig_devices(const fs::path& root) {
    const auto gpus = list_folder(root / kDriver / "capabilities");
    return std::ranges::any_of(gpus, [](const fs::path& gpu) {
        const auto instances = list_folder(gpu / "mig");
        return std::ranges::any_of(instances, [](const fs::path& instance) {
            return instance.filename().native().starts_with("gi");
        });
    });
}

/// "GPU-6bdd" of "GPU 0: NVIDIA A100 (UUID: GPU-6bdd)".
std::string_view uuid_in(std::string_view line) {
    constexpr std::string_view kSign = "(UUID: ";
    const auto begin = line.rfind(kSign);
    const auto end = line.rfind(')');
    if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
        return {};
    }
    return line.substr(begin + kSign.size(), end - begin - kSign.size());
}

}  // namespace

GpuFindings find_without_probe(const fs::path& root, const AskNvidiaSmi& ask) {
    GpuFindings found;
    if (const auto version = read_file(root / kDriver / "version", kMaxText)) {
        found.driver.version = parse_driver_version(*version);
    }
    found.gpus = read_gpus(root);
    if (found.gpus.empty()) {
        if (const auto text = ask({std::string(kNvidiaSmiQuery), std::string(kNvidiaSmiFormat)})) {
            found.gpus = parse_nvidia_smi(*text).value_or(std::vector<Gpu>{});
        }
    }
    if (!found.gpus.empty() && has_mig_devices(root)) {
        if (const auto list = ask({"-L"})) {
            found.gpus = with_mig_devices(found.gpus, *list);
        } else {
            found.note =
                "some of its GPUs are in MIG mode, and nvidia-smi does not tell their MIG devices; "
                "name them in CUDA_VISIBLE_DEVICES";
        }
    }
    return found;
}

std::optional<Gpu> parse_driver_information(std::string_view text) {
    Gpu gpu;
    for (const auto line : split(text, '\n')) {
        const auto colon = line.find(':');
        if (colon == std::string_view::npos) {
            continue;
        }
        const auto name = trim(line.substr(0, colon));
        const auto value = trim(line.substr(colon + 1));
        if (name == "GPU UUID") {
            gpu.uuid = value;
        } else if (name == "Model") {
            gpu.name = value;
        }
    }
    // The driver shows question marks for a device that nobody has opened since it was loaded.
    if (gpu.uuid.empty() || gpu.uuid.find('?') != std::string::npos) {
        return std::nullopt;
    }
    return gpu;
}

std::optional<std::vector<Gpu>> parse_nvidia_smi(std::string_view text) {
    constexpr std::size_t kFields = 4;
    std::vector<Gpu> gpus;
    for (const auto line : split(trim(text), '\n')) {
        const auto fields = split(line, ',');
        if (fields.size() != kFields) {
            return std::nullopt;
        }
        const auto index = parse_number<int>(trim(fields[0]));
        const auto memory = parse_number<std::uint64_t>(trim(fields[2]));
        if (!index || *index < 0) {
            return std::nullopt;
        }
        gpus.push_back({.index = *index,
                        .uuid = std::string(trim(fields[1])),
                        .name = std::string(trim(fields[3])),
                        .memory_bytes = memory.value_or(0) * kMiB,  // "[N/A]" on some boards
                        .cpus = {}});
    }
    return gpus;
}

std::string parse_driver_version(std::string_view text) {
    // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 20 ..."
    const auto first_line = text.substr(0, text.find('\n'));
    for (const auto word : split(first_line, ' ')) {
        constexpr std::string_view kDigits = "0123456789";
        const bool is_number = word.find_first_not_of(kDigits) != 0 &&
                               word.find_first_not_of("0123456789.") == std::string_view::npos;
        if (is_number && word.find('.') != std::string_view::npos) {
            return std::string(word);
        }
    }
    return "";
}

std::vector<Gpu> with_mig_devices(const std::vector<Gpu>& gpus, std::string_view list) {
    std::vector<Gpu> devices;
    auto whole = gpus.end();
    for (const auto line : split(list, '\n')) {
        const auto uuid = uuid_in(line);
        const auto words = trim(line);
        if (words.starts_with("GPU ")) {
            whole = std::ranges::find(gpus, uuid, &Gpu::uuid);
        } else if (words.starts_with("MIG ") && whole != gpus.end()) {
            // "  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736)"
            auto device = *whole;
            device.uuid = uuid;
            device.parent = whole->uuid;
            device.name += " MIG " + std::string(split(words, ' ')[1]);
            device.memory_bytes = 0;
            devices.push_back(std::move(device));
        }
    }
    std::vector<Gpu> all;
    for (const auto& gpu : gpus) {
        const auto own = [&](const Gpu& device) { return device.parent == gpu.uuid; };
        if (std::ranges::none_of(devices, own)) {
            all.push_back(gpu);
        }
        std::ranges::copy_if(devices, std::back_inserter(all), own);
    }
    return all;
}

}  // namespace hvd::launch::agent
