// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-gpu-probe/nvml.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include <dlfcn.h>

namespace hvd::gpu_probe {
namespace {

// The part of NVML's ABI that we use, declared here so that nothing of CUDA is needed to build. It
// is stable: a changed function gets a new name with a version at its end.
using Return = int;
using Device = void*;
constexpr Return kSuccess = 0;

struct Memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};

struct ProcessInfo {
    unsigned pid;
    unsigned long long used_bytes;  // all ones: not known
    unsigned gpu_instance;
    unsigned compute_instance;
};

struct PciInfo {
    std::array<char, 16> legacy_bus_id;
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned pci_device_id;
    unsigned pci_subsystem_id;
    std::array<char, 32> bus_id;
};

constexpr unsigned kTextBytes = 96;
constexpr unsigned kCpuWords = 128;
constexpr std::size_t kMaxList = 4096;
constexpr unsigned kMostProcesses = 256;
constexpr unsigned kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;

struct LibraryCloser {
    void operator()(void* library) const noexcept { (void)::dlclose(library); }
};

struct Functions {
    Return (*init)() = nullptr;
    Return (*shutdown)() = nullptr;
    const char* (*error_string)(Return) = nullptr;
    Return (*device_count)(unsigned*) = nullptr;
    Return (*device_by_index)(unsigned, Device*) = nullptr;
    Return (*uuid)(Device, char*, unsigned) = nullptr;
    Return (*name)(Device, char*, unsigned) = nullptr;
    Return (*memory)(Device, Memory*) = nullptr;
    Return (*pci_info)(Device, PciInfo*) = nullptr;
    // Not on every platform, or not in every driver.
    Return (*cpu_affinity)(Device, unsigned, unsigned long*) = nullptr;
    Return (*driver_version)(char*, unsigned) = nullptr;
    Return (*cuda_version)(int*) = nullptr;
    Return (*peer_status)(Device, Device, int, int*) = nullptr;
    Return (*processes)(Device, unsigned*, ProcessInfo*) = nullptr;
};

// The questions to nvmlDeviceGetP2PStatus.
constexpr int kReads = 0;
constexpr int kNvlink = 2;
constexpr int kPeerOk = 0;

template <class Function>
bool load(void* library, const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, symbol));
    return function != nullptr;
}

/// The name of the first function that is missing, or nothing.
std::string load_all(void* library, Functions& nvml) {
    const std::array needed{
        std::pair{"nvmlInit_v2", load(library, "nvmlInit_v2", nvml.init)},
        std::pair{"nvmlShutdown", load(library, "nvmlShutdown", nvml.shutdown)},
        std::pair{"nvmlErrorString", load(library, "nvmlErrorString", nvml.error_string)},
        std::pair{"nvmlDeviceGetCount_v2",
                  load(library, "nvmlDeviceGetCount_v2", nvml.device_count)},
        std::pair{"nvmlDeviceGetHandleByIndex_v2",
                  load(library, "nvmlDeviceGetHandleByIndex_v2", nvml.device_by_index)},
        std::pair{"nvmlDeviceGetUUID", load(library, "nvmlDeviceGetUUID", nvml.uuid)},
        std::pair{"nvmlDeviceGetName", load(library, "nvmlDeviceGetName", nvml.name)},
        std::pair{"nvmlDeviceGetMemoryInfo", load(library, "nvmlDeviceGetMemoryInfo", nvml.memory)},
        std::pair{"nvmlDeviceGetPciInfo_v3",
                  load(library, "nvmlDeviceGetPciInfo_v3", nvml.pci_info)},
    };
    (void)load(library, "nvmlDeviceGetCpuAffinity", nvml.cpu_affinity);
    (void)load(library, "nvmlSystemGetDriverVersion", nvml.driver_version);
    (void)load(library, "nvmlSystemGetCudaDriverVersion_v2", nvml.cuda_version);
    (void)load(library, "nvmlDeviceGetP2PStatus", nvml.peer_status);
    (void)load(library, "nvmlDeviceGetComputeRunningProcesses_v3", nvml.processes);
    const auto missing =
        std::ranges::find_if(needed, [](const auto& function) { return !function.second; });
    return missing == needed.end() ? "" : missing->first;
}

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

std::string find_link(const Functions& nvml, const std::vector<Device>& devices) {
    if (devices.size() < 2 || nvml.peer_status == nullptr) {
        return "";
    }
    if (can_all(nvml, devices, kNvlink) == true) {
        return "NVLink";
    }
    const auto reads = can_all(nvml, devices, kReads);
    return !reads ? "" : *reads ? "PCIe" : "host memory";
}

FoundDriver describe_driver(const Functions& nvml, const std::vector<Device>& devices) {
    FoundDriver driver{.version = "", .cuda = "", .link = find_link(nvml, devices)};
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

struct Placed {
    std::tuple<unsigned, unsigned, unsigned> place;  // on the PCI bus
    Device device;
    FoundGpu gpu;
};

Result<Placed> describe(const Functions& nvml, const std::filesystem::path& sysfs, unsigned index) {
    const auto failed = [&](const char* what, Return code) {
        return Error{Errc::unavailable,
                     "GPU " + std::to_string(index) + ": " + what + ": " + nvml.error_string(code)};
    };
    Device device = nullptr;
    std::array<char, kTextBytes> uuid{};
    std::array<char, kTextBytes> name{};
    PciInfo pci{};
    if (const auto code = nvml.device_by_index(index, &device); code != kSuccess) {
        return failed("handle", code);
    }
    if (const auto code = nvml.uuid(device, uuid.data(), kTextBytes); code != kSuccess) {
        return failed("UUID", code);
    }
    if (const auto code = nvml.name(device, name.data(), kTextBytes); code != kSuccess) {
        return failed("name", code);
    }
    if (const auto code = nvml.pci_info(device, &pci); code != kSuccess) {
        return failed("PCI information", code);
    }
    auto cpus = cpus_of_driver(nvml, device);
    if (cpus.empty()) {
        cpus = cpus_of_kernel(sysfs, pci);
    }
    // A board whose memory is the machine's does not know its amount.
    Memory memory{};
    const bool has_memory = nvml.memory(device, &memory) == kSuccess;
    return Placed{.place = {pci.domain, pci.bus, pci.device},
                  .device = device,
                  .gpu = {.index = 0,
                          .uuid = uuid.data(),
                          .name = name.data(),
                          .memory_bytes = has_memory ? memory.total : 0,
                          .near_cpus = std::move(cpus)}};
}

/// All GPUs, in the order of the bus.
Result<std::vector<Placed>> place_all(const Functions& nvml, const std::filesystem::path& sysfs) {
    unsigned count = 0;
    if (const auto code = nvml.device_count(&count); code != kSuccess) {
        return Error{Errc::unavailable, std::string("device count: ") + nvml.error_string(code)};
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

Result<Found> find_with(const Functions& nvml, const std::filesystem::path& sysfs) {
    HVD_TRY(auto placed, place_all(nvml, sysfs));
    Found found;
    std::vector<Device> devices;
    for (auto& entry : placed) {
        found.gpus.push_back(std::move(entry.gpu));
        devices.push_back(entry.device);
    }
    found.driver = describe_driver(nvml, devices);
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
    HVD_TRY(auto placed, place_all(nvml, {}));
    std::vector<GpuUse> found;
    for (auto& entry : placed) {
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
    if (const auto missing = load_all(library.get(), nvml); !missing.empty()) {
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
