// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-gpu-probe/nvml_functions.hpp"

#include <algorithm>
#include <utility>

#include <dlfcn.h>

namespace hvd::gpu_probe {
namespace {

template <class Function>
bool load(void* library, const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, symbol));
    return function != nullptr;
}

}  // namespace

std::string load_functions(void* library, Functions& nvml) {
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
    (void)load(library, "nvmlDeviceGetMigMode", nvml.mig_mode);
    (void)load(library, "nvmlDeviceGetMaxMigDeviceCount", nvml.most_mig_devices);
    (void)load(library, "nvmlDeviceGetMigDeviceHandleByIndex", nvml.mig_device_by_index);
    const auto missing =
        std::ranges::find_if(needed, [](const auto& function) { return !function.second; });
    return missing == needed.end() ? "" : missing->first;
}

}  // namespace hvd::gpu_probe
