// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/packer.hpp"

#include "collectives/cuda/adasum_arguments.hpp"
#include "collectives/cuda/ptx.hpp"

#include <algorithm>
#include <string>

namespace hvd::coll::cuda {
namespace {

constexpr std::string_view kCopyKernel = "hvd_copy";

#define HVD_KERNEL_NAME(from, to) "hvd_convert_" #from "_" #to,
#define HVD_ADASUM_NAMES(type) "hvd_adasum_dots_" #type, "hvd_adasum_combine_" #type,
constexpr std::array kKernelNames{HVD_PACK_KERNELS(HVD_KERNEL_NAME)
                                      HVD_ADASUM_TYPES(HVD_ADASUM_NAMES) "hvd_adasum_totals",
                                  kCopyKernel.data()};
#undef HVD_ADASUM_NAMES
#undef HVD_KERNEL_NAME

int attribute(const Driver& driver, CUdevice device, CUdevice_attribute which) {
    int value = 0;
    check(driver, driver.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
}

constexpr std::size_t kTableBytes = Packer::kMostEntries * sizeof(PackEntry);

Handle<void*> allocate_on_host(const Driver& driver, const Device& device, std::size_t bytes) {
    const Device::Current current(device);
    void* made = nullptr;
    check(driver, driver.cuMemHostAlloc(&made, bytes, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
    return {device, made, driver.cuMemFreeHost};
}

Handle<CUdeviceptr> allocate_on_device(const Driver& driver,
                                       const Device& device,
                                       std::size_t bytes) {
    const Device::Current current(device);
    CUdeviceptr made = 0;
    check(driver, driver.cuMemAlloc(&made, bytes), "cuMemAlloc");
    return {device, made, driver.cuMemFree};
}

CUmodule load_module(const Driver& driver, const Device& device) {
    const Device::Current current(device);
    const int capability =
        10 * attribute(driver, device.handle(), CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
        attribute(driver, device.handle(), CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    const auto* const ptx = ptx_for(capability);
    if (ptx == nullptr) {
        throw Exception(
            {Errc::unsupported, "this build has no kernels for GPUs of compute capability " +
                                    std::to_string(capability / 10) + "." +
                                    std::to_string(capability % 10) +
                                    ": set HOROVOD_GPU_OPERATIONS=host, which needs none"});
    }
    CUmodule module = nullptr;
    const auto cubin = cubin_for(capability, driver.version);
    if (!cubin.empty() &&
        driver.cuModuleLoadDataEx(&module, cubin.data(), 0, nullptr, nullptr) == CUDA_SUCCESS) {
        return module;
    }
    check(driver, driver.cuModuleLoadDataEx(&module, ptx->text.data(), 0, nullptr, nullptr),
          "cuModuleLoadDataEx");
    return module;
}

}  // namespace

Packer::Packer(const Driver& driver, const Device& device, CUstream stream)
    : driver_(driver),
      device_(device),
      stream_(stream),
      processors_(static_cast<unsigned>(
          attribute(driver, device.handle(), CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT))),
      module_(device, load_module(driver, device), driver.cuModuleUnload),
      host_tables_(allocate_on_host(driver, device, kTables * kTableBytes)),
      device_tables_(allocate_on_device(driver, device, kTables * kTableBytes)) {
    const Device::Current current(device);
    for (const char* const name : kKernelNames) {
        check(driver, driver.cuModuleGetFunction(&kernels_[name], module_.get(), name),
              "cuModuleGetFunction");
    }
    for (std::size_t table = 0; table < kTables; ++table) {
        tables_.at(table).on_host =
            static_cast<std::byte*>(host_tables_.get()) + table * kTableBytes;
        tables_.at(table).on_device = device_tables_.get() + table * kTableBytes;
    }
}

bool Packer::has_room(int launches) {
    for (std::size_t ahead = 0; ahead < static_cast<std::size_t>(launches); ++ahead) {
        const auto& table = tables_.at((next_ + ahead) % kTables);
        if (table.used != nullptr && !device_.is_complete(table.used)) {
            return false;
        }
    }
    return true;
}

const std::byte* Packer::load(std::span<const std::byte> table) {
    loaded_ = &tables_.at(next_);
    next_ = (next_ + 1) % kTables;
    std::ranges::copy(table, loaded_->on_host);
    check(driver_,
          driver_.cuMemcpyHtoDAsync(loaded_->on_device, loaded_->on_host, table.size_bytes(),
                                    stream_),
          "cuMemcpyHtoDAsync");
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA has addresses as numbers
    return reinterpret_cast<const std::byte*>(loaded_->on_device);
}

void Packer::launch(std::string_view kernel,
                    unsigned blocks,
                    unsigned threads,
                    void* arguments) const {
    std::array<void*, 1> parameters{arguments};
    check(driver_,
          driver_.cuLaunchKernel(kernels_.at(kernel), blocks, 1, 1, threads, 1, 1, 0, stream_,
                                 parameters.data(), nullptr),
          "cuLaunchKernel");
}

void Packer::unload() {
    if (loaded_->used == nullptr) {
        check(driver_, driver_.cuEventCreate(&loaded_->used, CU_EVENT_DISABLE_TIMING),
              "cuEventCreate");
    }
    check(driver_, driver_.cuEventRecord(loaded_->used, stream_), "cuEventRecord");
}

void Packer::run(const PackChange& change,
                 bool is_pack,
                 std::span<const PackEntry> entries,
                 std::byte* fused) {
    const auto* const on_device = reinterpret_cast<const PackEntry*>(load(std::as_bytes(entries)));
    auto planned = plan_pack(change, is_pack, entries, on_device, fused, processors_);
    if (!planned) {
        throw Exception({Errc::internal, "no kernel converts " +
                                             std::string(to_string(change.from)) + " to " +
                                             std::string(to_string(change.to))});
    }
    if (planned->blocks != 0) {
        launch(planned->kernel, planned->blocks, planned->threads, &planned->arguments);
    }
    unload();
}

}  // namespace hvd::coll::cuda
