// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>

namespace hvd::gpu_probe {

// The part of NVML's ABI that we use, declared here so that nothing of CUDA is needed to build. It
// is stable: a changed function gets a new name with a version at its end.
using Return = int;
using Device = void*;
constexpr Return kSuccess = 0;
constexpr Return kNoPermission = 4;
constexpr Return kNotFound = 6;
constexpr unsigned kMigIsOn = 1;

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

// The questions to nvmlDeviceGetP2PStatus.
constexpr int kReads = 0;
constexpr int kNvlink = 2;
constexpr int kPeerOk = 0;

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
    Return (*mig_mode)(Device, unsigned*, unsigned*) = nullptr;
    Return (*most_mig_devices)(Device, unsigned*) = nullptr;
    Return (*mig_device_by_index)(Device, unsigned, Device*) = nullptr;
};

/// Looks all of them up in a library that dlopen has opened. Returns the name of the first needed
/// one that is missing, or nothing.
[[nodiscard]] std::string load_functions(void* library, Functions& nvml);

}  // namespace hvd::gpu_probe
