// SPDX-License-Identifier: Apache-2.0
//
// Prints the GPUs of this host for hvd-agent: lines of fields with tabs between them,
// "driver VERSION CUDA-VERSION LINK" and "gpu INDEX UUID PARENT MEMORY-BYTES NEAR-CPUS NAME" in PCI
// bus order, and "note WHY-ONE-OR-ALL-ARE-MISSING". A GPU in MIG mode is a line for each of its MIG
// devices, which have its index and its UUID as PARENT. The argument replaces /sys in tests.
// With --use, who uses their memory: "use INDEX USED-BYTES MEMORY-BYTES UUID NAME", and after each
// of those "process INDEX PID BYTES", 0 where the bytes are not known.
#include "apps/hvd-gpu-probe/nvml.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

namespace {

using hvd::Error;
using hvd::gpu_probe::Found;
using hvd::gpu_probe::GpuUse;

constexpr int kUsage = 2;

/// One field: what separates fields and lines cannot be in it.
std::string field(std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return c == '\t' || c == '\n'; }, ' ');
    return text;
}

std::string print(const Error& error) {
    return "note\t" + field(error.message) + "\n";
}

std::string print(const Found& found) {
    const auto& driver = found.driver;
    std::string text =
        "driver\t" + field(driver.version) + "\t" + driver.cuda + "\t" + driver.link + "\n";
    for (const auto& gpu : found.gpus) {
        text += "gpu\t" + std::to_string(gpu.index) + "\t" + field(gpu.uuid) + "\t" +
                field(gpu.parent) + "\t" + std::to_string(gpu.memory_bytes) + "\t" +
                hvd::format_ranges(gpu.near_cpus) + "\t" + field(gpu.name) + "\n";
    }
    return found.notes.empty() ? text
                               : text + "note\t" + field(hvd::join(found.notes, "; ")) + "\n";
}

std::string print(const std::vector<GpuUse>& uses) {
    std::string text;
    for (const auto& use : uses) {
        const auto index = std::to_string(use.gpu.index);
        text += "use\t" + index + "\t" + std::to_string(use.used_bytes) + "\t" +
                std::to_string(use.gpu.memory_bytes) + "\t" + field(use.gpu.uuid) + "\t" +
                field(use.gpu.name) + "\n";
        for (const auto& process : use.processes) {
            text += "process\t" + index + "\t" + std::to_string(process.pid) + "\t" +
                    std::to_string(process.bytes) + "\n";
        }
    }
    return text;
}

template <class Value>
std::string print(const hvd::Result<Value>& result) {
    return result ? print(*result) : print(result.error());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 2) {
        (void)std::fputs(
            "usage: hvd-gpu-probe [SYSFS|--use]    (HOROVOD_NVML_LIBRARY names the library)\n",
            stderr);
        return kUsage;
    }
    const auto library = hvd::read_env("HOROVOD_NVML_LIBRARY").value_or("libnvidia-ml.so.1");
    const std::string_view argument = argc == 2 ? argv[1] : "/sys";
    const auto text = argument == "--use" ? print(hvd::gpu_probe::find_use(library))
                                          : print(hvd::gpu_probe::find_gpus(library, argument));
    const bool is_written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    return is_written ? 0 : 1;
}
