// SPDX-License-Identifier: Apache-2.0
//
// A library with the functions of NVML that hvd-gpu-probe calls. FAKE_NVML says how it behaves:
// "gpus" shows three GPUs in another order than that of the bus, "fail" cannot be initialised,
// "lost" has a GPU that fell off the bus, "far" knows no CPUs near a GPU, "hang" never returns.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <unistd.h>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
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
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a handle is opaque to callers
    *device = reinterpret_cast<void*>(std::uintptr_t{index} + 1);
    return behaviour() == "lost" && index == 1 ? kGpuIsLost : kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetUUID(void* device,
                                                             char* text,
                                                             unsigned size) {
    copy("GPU-" + std::to_string(number_of(device)), text, size);
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetName(void* device,
                                                             char* text,
                                                             unsigned size) {
    copy("Fake\tGPU " + std::to_string(number_of(device)), text, size);
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
    *memory = {};
    memory->total = 1000ULL * (number_of(device) + 1);
    memory->used = 4ULL << 30U;
    return number_of(device) == 2 ? kDriverNotLoaded : kSuccess;
}

/// Two processes on GPU 1: the parent of this one, and process 1.
__attribute__((visibility("default"))) int
nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfo* infos) {
    *count = number_of(device) == 1 ? 2 : 0;
    if (*count != 0) {
        infos[0] = {static_cast<unsigned>(::getppid()), 3ULL << 30U, 0, 0};
        infos[1] = {1, ~0ULL, 0, 0};
    }
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
    *info = {};
    info->bus = 0x40 - number_of(device);  // the last GPU comes first on the bus
    return kSuccess;
}

__attribute__((visibility("default"))) int nvmlDeviceGetCpuAffinity(void* device,
                                                                    unsigned words,
                                                                    unsigned long* cpus) {
    if (behaviour() == "far") {
        return kNotSupported;
    }
    std::memset(cpus, 0, words * sizeof *cpus);
    cpus[number_of(device)] = 0b1101;
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
