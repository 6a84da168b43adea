// SPDX-License-Identifier: Apache-2.0
//
// Prints the GPUs of this host for hvd-agent: lines of fields with tabs between them,
// "driver VERSION CUDA-VERSION LINK" and "gpu INDEX UUID MEMORY-BYTES NEAR-CPUS NAME" in PCI bus
// order, or "note WHY-THERE-IS-NONE".
// Its argument replaces /sys in tests.
#include "apps/hvd-gpu-probe/nvml.hpp"
#include "collectives/base/env.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

namespace {

constexpr int kUsage = 2;

/// One field: what separates fields and lines cannot be in it.
std::string field(std::string text) {
    std::ranges::replace_if(
        text, [](char c) { return c == '\t' || c == '\n'; }, ' ');
    return text;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 2) {
        (void)std::fputs(
            "usage: hvd-gpu-probe [SYSFS]    (HOROVOD_NVML_LIBRARY names the library)\n", stderr);
        return kUsage;
    }
    const auto library = hvd::read_env("HOROVOD_NVML_LIBRARY").value_or("libnvidia-ml.so.1");
    const auto found = hvd::gpu_probe::find_gpus(library, argc == 2 ? argv[1] : "/sys");
    std::string text;
    if (!found) {
        text = "note\t" + field(found.error().message) + "\n";
    } else {
        const auto& driver = found->driver;
        text = "driver\t" + field(driver.version) + "\t" + driver.cuda + "\t" + driver.link + "\n";
        for (const auto& gpu : found->gpus) {
            text += "gpu\t" + std::to_string(gpu.index) + "\t" + field(gpu.uuid) + "\t" +
                    std::to_string(gpu.memory_bytes) + "\t" + hvd::format_ranges(gpu.near_cpus) +
                    "\t" + field(gpu.name) + "\n";
        }
    }
    const bool is_written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    return is_written ? 0 : 1;
}
