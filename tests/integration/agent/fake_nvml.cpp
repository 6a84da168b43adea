// SPDX-License-Identifier: Apache-2.0
//
// A library with the functions of NVML that hvd-gpu-probe calls. FAKE_NVML says how it behaves:
// "gpus" shows three GPUs in another order than that of the bus, "fail" cannot be initialised,
// "lost" has a GPU that fell off the bus, "far" knows no CPUs near a GPU, "hang" never returns.
// "mig" and "mig-empty" answer as an A100 of NVIDIA's MIG user guide: GPU 1 is in MIG mode, and has
// two MIG devices whose numbers have a gap, and one of another container, or none; GPU 2 cannot be
// divided.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <unistd.h>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNoPermission = 4;
constexpr int kNotFound = 6;
constexpr int kDriverNotLoaded = 9;
constexpr int kGpuIsLost = 15;
constexpr unsigned kGpus = 3;

std::string_view behaviour() {
    const char* value = std::getenv("FAKE_NVML");  // NOLINT(concurrency-mt-unsafe): one thread
    return value == nullptr ? "" : value;
}

unsigned number_of(void* device) {
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device)) - 1;
}

constexpr unsigned kDivided = 1;    // the GPU in MIG mode
constexpr unsigned kMostParts = 7;  // of an A100
constexpr unsigned kFirstPart = 100;

struct Part {
    unsigned number;
    const char* uuid;
    const char* name;
    unsigned long long mebibytes;
};

constexpr std::array kParts{
    Part{0, "MIG-c7384736-a75d-5afc-978f-d2f1294409fd", "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
         20'224},
    Part{2, "MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4'864},
};

/// The MIG device of a handle, or nullptr for that of a GPU.
const Part* part_of(void* device) {
    const auto number = number_of(device);
    return number < kFirstPart ? nullptr : &kParts.at(number - kFirstPart);
}

void* handle_of(unsigned number) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a handle is opaque to callers
    return reinterpret_cast<void*>(std::uintptr_t{number} + 1);
}

void copy(const std::string& text, char* to, unsigned size) {
    std::strncpy(to, text.c_str(), size);
}

struct Memory {
    unsigned long long total, free, used;
};

struct ProcessInfo {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

struct PciInfo {
    char legacy_bus_id[16];  // NOLINT(modernize-avoid-c-arrays): the ABI
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];  // NOLINT(modernize-avoid-c-arrays): the ABI
};

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the ABI
extern "C" {

__attribute__((visibility("default"))) int nvmlInit_v2() {
    if (behaviour() == "hang") {
        while (true) {
            ::pause();
        }
    }
    return behaviour() == "fail" ? kDriverNotLoaded : kSuccess;
}

__attribute__((visibility("default"))) int nvmlShutdown() {
    return kSuccess;
}

__attribute__((visibility("default"))) const char* nvmlErrorString(int code) {
    return code == kDriverNotLoaded ? "Driver Not Loaded" : "GPU is lost";
}

__attribute__((visibility("default"))) int nvmlDeviceGetCount_v2(unsigned* count) {
    *count = kGpus;
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetHandleByIndex_v2(unsigned index,
                                                                         void** device) {
    *device = handle_of(index);
    return behaviour() == "lost" && index == 1 ? kGpuIsLost : kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetUUID(void* device,
                                                             char* text,
                                                             unsigned size) {
    if (const auto* part = part_of(device)) {
        copy(part->uuid, text, size);
        return kSuccess;
    }
    copy("GPU-" + std::to_string(number_of(device)), text, size);
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetName(void* device,
                                                             char* text,
                                                             unsigned size) {
    if (const auto* part = part_of(device)) {
        copy(part->name, text, size);
        return kSuccess;
    }
    copy("Fake\tGPU " + std::to_string(number_of(device)), text, size);
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
    *memory = {};
    if (const auto* part = part_of(device)) {
        memory->total = part->mebibytes << 20U;
        return kSuccess;
    }
    memory->total = 1000ULL * (number_of(device) + 1);
    memory->used = 4ULL << 30U;
    return number_of(device) == 2 ? kDriverNotLoaded : kSuccess;
}

/// Two processes on GPU 1, or on its last MIG device: the parent of this one, and process 1.
__attribute__((visibility("default"))) int
nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfo* infos) {
    *count = number_of(device) == 1 || part_of(device) == &kParts.back() ? 2 : 0;
    if (*count != 0) {
        infos[0] = {static_cast<unsigned>(::getppid()), 3ULL << 30U, 0, 0};
        infos[1] = {1, ~0ULL, 0, 0};
    }
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
    if (part_of(device) != nullptr) {
        return kNotSupported;
    }
    *info = {};
    info->bus = 0x40 - number_of(device);  // the last GPU comes first on the bus
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetCpuAffinity(void* device,
                                                                    unsigned words,
                                                                    unsigned long* cpus) {
    if (behaviour() == "far" || part_of(device) != nullptr) {
        return kNotSupported;
    }
    std::memset(cpus, 0, words * sizeof *cpus);
    cpus[number_of(device)] = 0b1101;
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetMigMode(void* device,
                                                                unsigned* current,
                                                                unsigned* pending) {
    if (part_of(device) != nullptr) {
        return kInvalidArgument;
    }
    *current = *pending = number_of(device) == kDivided ? 1 : 0;
    return behaviour().starts_with("mig") && number_of(device) != 2 ? kSuccess : kNotSupported;
}

__attribute__((visibility("default"))) int nvmlDeviceGetMaxMigDeviceCount(void* device,
                                                                          unsigned* count) {
    *count = number_of(device) == kDivided ? kMostParts : 0;
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetMigDeviceHandleByIndex(void* device,
                                                                               unsigned index,
                                                                               void** part) {
    if (number_of(device) == kDivided && index == kMostParts - 1) {
        return kNoPermission;
    }
    const auto* const found = std::ranges::find(kParts, index, &Part::number);
    if (number_of(device) != kDivided || found == kParts.end() || behaviour() == "mig-empty") {
        return kNotFound;
    }
    *part = handle_of(kFirstPart + static_cast<unsigned>(found - kParts.begin()));
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlSystemGetDriverVersion(char* text, unsigned size) {
    copy("580.65.06", text, size);
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlSystemGetCudaDriverVersion_v2(int* version) {
    *version = 13'000;
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetP2PStatus(void* from,
                                                                  void* to,
                                                                  int what,
                                                                  int* status) {
    constexpr int kNvlink = 2;
    constexpr int kNotConnected = 5;
    const bool has_bridge = number_of(from) + number_of(to) == 1;  // the first two have
    *status = what == kNvlink && !has_bridge ? kNotConnected : 0;
    return kSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
