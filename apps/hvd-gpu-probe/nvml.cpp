// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-gpu-probe/nvml.hpp"

#include "apps/hvd-gpu-probe/nvml_functions.hpp"
#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include <dlfcn.h>

namespace hvd::gpu_probe {
namespace {

constexpr unsigned kTextBytes = 96;
constexpr unsigned kCpuWords = 128;
constexpr std::size_t kMaxList = 4096;
constexpr unsigned kMostProcesses = 256;
constexpr unsigned kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;

struct LibraryCloser {
    void operator()(void* library) const noexcept { (void)::dlclose(library); }
};

std::vector<int> cpus_of_driver(const Functions& nvml, Device device) {
    std::array<unsigned long, kCpuWords> words{};
    if (nvml.cpu_affinity == nullptr ||
        nvml.cpu_affinity(device, kCpuWords, words.data()) != kSuccess) {
        return {};
    }
    std::vector<int> cpus;
    for (unsigned cpu = 0; cpu < kCpuWords * kBitsPerWord; ++cpu) {
        if (((words.at(cpu / kBitsPerWord) >> (cpu % kBitsPerWord)) & 1U) != 0) {
            cpus.push_back(static_cast<int>(cpu));
        }
    }
    return cpus;
}

std::vector<int> cpus_of_kernel(const std::filesystem::path& sysfs, const PciInfo& pci) {
    std::array<char, kTextBytes> place{};
    (void)std::snprintf(place.data(), place.size(), "%04x:%02x:%02x.0", pci.domain, pci.bus,
                        pci.device);
    const auto list =
        read_file(sysfs / "bus/pci/devices" / place.data() / "local_cpulist", kMaxList);
    return list ? parse_ranges(trim(*list)).value_or(std::vector<int>{}) : std::vector<int>{};
}

Error failed(const Functions& nvml, const std::string& what, Return code) {
    return {Errc::unavailable, what + ": " + nvml.error_string(code)};
}

struct Placed {
    std::tuple<unsigned, unsigned, unsigned> place;  // on the PCI bus
    Device device;
    FoundGpu gpu;
};

/// Whether every pair of GPUs can do that; nothing where the driver does not tell.
std::optional<bool> can_all(const Functions& nvml, const std::vector<Device>& devices, int what) {
    for (auto* const from : devices) {
        for (auto* const to : devices) {
            int status = kPeerOk;
            if (from != to && nvml.peer_status(from, to, what, &status) != kSuccess) {
                return std::nullopt;
            }
            if (status != kPeerOk) {
                return false;
            }
        }
    }
    return true;
}

std::string find_link(const Functions& nvml, const std::vector<Placed>& placed) {
    if (placed.size() < 2) {
        return "";
    }
    if (std::ranges::any_of(placed,
                            [](const Placed& entry) { return !entry.gpu.parent.empty(); })) {
        return "host memory";  // a MIG device has no access to another
    }
    if (nvml.peer_status == nullptr) {
        return "";
    }
    std::vector<Device> devices;
    std::ranges::transform(placed, std::back_inserter(devices), &Placed::device);
    if (can_all(nvml, devices, kNvlink) == true) {
        return "NVLink";
    }
    const auto reads = can_all(nvml, devices, kReads);
    return !reads ? "" : *reads ? "PCIe" : "host memory";
}

FoundDriver describe_driver(const Functions& nvml, const std::vector<Placed>& placed) {
    FoundDriver driver{.version = "", .cuda = "", .link = find_link(nvml, placed)};
    std::array<char, kTextBytes> version{};
    if (nvml.driver_version != nullptr &&
        nvml.driver_version(version.data(), kTextBytes) == kSuccess) {
        driver.version = version.data();
    }
    int cuda = 0;
    if (nvml.cuda_version != nullptr && nvml.cuda_version(&cuda) == kSuccess) {
        driver.cuda = std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
    }
    return driver;
}

/// Of a GPU or of a MIG device; `what` begins an error.
Result<FoundGpu> identify(const Functions& nvml, Device device, const std::string& what) {
    std::array<char, kTextBytes> uuid{};
    std::array<char, kTextBytes> name{};
    if (const auto code = nvml.uuid(device, uuid.data(), kTextBytes); code != kSuccess) {
        return failed(nvml, what + ": UUID", code);
    }
    if (const auto code = nvml.name(device, name.data(), kTextBytes); code != kSuccess) {
        return failed(nvml, what + ": name", code);
    }
    // A board whose memory is the machine's does not know its amount.
    Memory memory{};
    const bool has_memory = nvml.memory(device, &memory) == kSuccess;
    return FoundGpu{.index = 0,
                    .uuid = uuid.data(),
                    .parent = "",
                    .name = name.data(),
                    .memory_bytes = has_memory ? memory.total : 0,
                    .near_cpus = {}};
}

Result<Placed> describe(const Functions& nvml, const std::filesystem::path& sysfs, unsigned index) {
    const auto what = "GPU " + std::to_string(index);
    Device device = nullptr;
    PciInfo pci{};
    if (const auto code = nvml.device_by_index(index, &device); code != kSuccess) {
        return failed(nvml, what + ": handle", code);
    }
    HVD_TRY(auto gpu, identify(nvml, device, what));
    if (const auto code = nvml.pci_info(device, &pci); code != kSuccess) {
        return failed(nvml, what + ": PCI information", code);
    }
    gpu.near_cpus = cpus_of_driver(nvml, device);
    if (gpu.near_cpus.empty()) {
        gpu.near_cpus = cpus_of_kernel(sysfs, pci);
    }
    return Placed{
        .place = {pci.domain, pci.bus, pci.device}, .device = device, .gpu = std::move(gpu)};
}

/// A driver without MIG, and a GPU that cannot be divided, have no such mode.
bool is_in_mig_mode(const Functions& nvml, Device device) {
    unsigned current = 0;
    unsigned pending = 0;  // after a reset of the GPU
    return nvml.mig_mode != nullptr && nvml.most_mig_devices != nullptr &&
           nvml.mig_device_by_index != nullptr &&
           nvml.mig_mode(device, &current, &pending) == kSuccess && current == kMigIsOn;
}

/// The MIG devices of a GPU in MIG mode. Their numbers have gaps where one was removed, or where a
/// container has no access to one.
Result<std::vector<Placed>> divide(const Functions& nvml, const Placed& whole) {
    const auto what = "GPU " + std::to_string(whole.gpu.index);
    unsigned most = 0;
    if (const auto code = nvml.most_mig_devices(whole.device, &most); code != kSuccess) {
        return failed(nvml, what + ": number of MIG devices", code);
    }
    std::vector<Placed> parts;
    for (unsigned index = 0; index < most; ++index) {
        const auto what_part = what + ": MIG device " + std::to_string(index);
        Device device = nullptr;
        const auto code = nvml.mig_device_by_index(whole.device, index, &device);
        if (code == kNotFound || code == kNoPermission) {
            continue;
        }
        if (code != kSuccess) {
            return failed(nvml, what_part + ": handle", code);
        }
        HVD_TRY(auto part, identify(nvml, device, what_part));
        part.index = whole.gpu.index;
        part.parent = whole.gpu.uuid;
        part.near_cpus = whole.gpu.near_cpus;
        parts.push_back({.place = whole.place, .device = device, .gpu = std::move(part)});
    }
    return parts;
}

/// All GPUs, in the order of the bus.
Result<std::vector<Placed>> place_all(const Functions& nvml, const std::filesystem::path& sysfs) {
    unsigned count = 0;
    if (const auto code = nvml.device_count(&count); code != kSuccess) {
        return failed(nvml, "device count", code);
    }
    std::vector<Placed> placed;
    for (unsigned index = 0; index < count; ++index) {
        HVD_TRY(auto gpu, describe(nvml, sysfs, index));
        placed.push_back(std::move(gpu));
    }
    std::ranges::stable_sort(placed, {}, &Placed::place);
    for (std::size_t index = 0; index < placed.size(); ++index) {
        placed[index].gpu.index = static_cast<int>(index);
    }
    return placed;
}

struct Usable {
    std::vector<Placed> placed;
    std::vector<std::string> notes;
};

/// All devices that CUDA can use: for a GPU in MIG mode its MIG devices.
Result<Usable> find_usable(const Functions& nvml, const std::filesystem::path& sysfs) {
    HVD_TRY(auto gpus, place_all(nvml, sysfs));
    Usable usable;
    for (auto& gpu : gpus) {
        if (!is_in_mig_mode(nvml, gpu.device)) {
            usable.placed.push_back(std::move(gpu));
            continue;
        }
        HVD_TRY(auto parts, divide(nvml, gpu));
        if (parts.empty()) {
            const auto index = std::to_string(gpu.gpu.index);
            std::string note = "GPU " + index;
            note += " (" + gpu.gpu.uuid + ") is in MIG mode and has no MIG device, so CUDA cannot ";
            note += "use it; make some with `nvidia-smi mig`, or end the mode with ";
            note += "`nvidia-smi -i " + index + " -mig 0`";
            usable.notes.push_back(std::move(note));
        }
        std::ranges::move(parts, std::back_inserter(usable.placed));
    }
    return usable;
}

Result<Found> find_with(const Functions& nvml, const std::filesystem::path& sysfs) {
    HVD_TRY(auto usable, find_usable(nvml, sysfs));
    Found found{.driver = describe_driver(nvml, usable.placed),
                .gpus = {},
                .notes = std::move(usable.notes)};
    for (auto& entry : usable.placed) {
        found.gpus.push_back(std::move(entry.gpu));
    }
    return found;
}

std::vector<GpuUse::Process> processes_of(const Functions& nvml, Device device) {
    std::array<ProcessInfo, kMostProcesses> infos{};
    unsigned count = kMostProcesses;
    if (nvml.processes == nullptr || nvml.processes(device, &count, infos.data()) != kSuccess) {
        return {};
    }
    std::vector<GpuUse::Process> processes;
    for (const auto& info : std::span(infos).first(std::min(count, kMostProcesses))) {
        const bool is_known = info.used_bytes != ~0ULL;
        processes.push_back({.pid = info.pid, .bytes = is_known ? info.used_bytes : 0});
    }
    return processes;
}

Result<std::vector<GpuUse>> find_use_with(const Functions& nvml) {
    HVD_TRY(auto usable, find_usable(nvml, {}));
    std::vector<GpuUse> found;
    for (auto& entry : usable.placed) {
        Memory memory{};
        (void)nvml.memory(entry.device, &memory);
        found.push_back({.gpu = std::move(entry.gpu),
                         .used_bytes = memory.used,
                         .processes = processes_of(nvml, entry.device)});
    }
    return found;
}

/// Opens the library and asks it by `ask`.
template <class Ask>
auto with_library(const std::string& library_name, const Ask& ask) -> decltype(ask(Functions())) {
    const std::unique_ptr<void, LibraryCloser> library(::dlopen(library_name.c_str(), RTLD_NOW));
    if (!library) {
        const char* why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): one thread
        return Error{Errc::unavailable, why == nullptr ? library_name : why};
    }
    Functions nvml;
    if (const auto missing = load_functions(library.get(), nvml); !missing.empty()) {
        return Error{Errc::unavailable, library_name + ": it has no " + missing};
    }
    if (const auto code = nvml.init(); code != kSuccess) {
        return Error{Errc::unavailable, library_name + ": " + nvml.error_string(code)};
    }
    auto found = ask(nvml);
    (void)nvml.shutdown();
    return found ? std::move(found) : std::move(found).error().context(library_name);
}

}  // namespace

Result<Found> find_gpus(const std::string& library, const std::filesystem::path& sysfs) {
    return with_library(library, [&](const Functions& nvml) { return find_with(nvml, sysfs); });
}

Result<std::vector<GpuUse>> find_use(const std::string& library) {
    return with_library(library, find_use_with);
}

}  // namespace hvd::gpu_probe
