// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/gpus.hpp"

#include "collectives/cuda/factory.hpp"

#include <utility>

namespace hvd::coll::cuda {

/// Makes it the process's GPU, unless there is one.
Gpu& Gpus::open(int device) {
    const std::lock_guard lock(mutex_);
    if (!owned_) {
        owned_ = std::make_unique<Gpu>(open_once(driver_, library_), device);
        gpu_.store(owned_.get(), std::memory_order_release);
    }
    return *owned_;
}

void Gpus::attach(int device) {
    auto* const known = gpu_.load(std::memory_order_acquire);
    const auto& attached = known != nullptr ? *known : open(device);
    if (attached.index() != device) {
        throw Exception({Errc::invalid_argument,
                         "the tensor is on GPU " + std::to_string(device) +
                             ", those before it were on GPU " + std::to_string(attached.index()) +
                             ": a rank has one GPU (torch.cuda.set_device(hvd.local_rank())); with "
                             "HOROVOD_GPU_OPERATIONS=host it may have several"});
    }
}

int Gpus::attached() const noexcept {
    const auto* const gpu = gpu_.load(std::memory_order_acquire);
    return gpu != nullptr ? gpu->index() : -1;
}

Gpu& Gpus::gpu() const {
    auto* const gpu = gpu_.load(std::memory_order_acquire);
    if (gpu == nullptr) {
        throw Exception({Errc::unsupported,
                         "this rank has had no tensor on a GPU, and other ranks have one here: "
                         "which GPU is its own is not known"});
    }
    return *gpu;
}

SharedEvent Gpus::ready(const DevicePlace& place) {
    auto& mine = gpu();
    if (place.event != nullptr) {
        return mine.borrow(static_cast<CUevent>(place.event));
    }
    const Device::Current current(mine.device());
    auto* const stream = static_cast<CUstream>(place.stream);
    mine.device().refuse_capture(stream);
    return mine.record(stream);
}

DeviceBytes Gpus::allocate(std::size_t bytes) {
    return gpu().memory().allocate(bytes);
}

DeviceBytes Gpus::upload(std::span<const std::byte> bytes) {
    auto& mine = gpu();
    auto memory = mine.memory().allocate(bytes.size());
    if (!bytes.empty()) {
        const Device::Current current(mine.device());
        std::erase_if(uploads_, [](const Upload& upload) {
            return upload.read == nullptr || upload.read->is_complete();
        });
        auto& upload = uploads_.emplace_back();
        upload.bytes.assign(bytes.begin(), bytes.end());
        check(mine.driver(),
              mine.driver().cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(memory.get()),
                                              upload.bytes.data(), bytes.size(), mine.stream()),
              "cuMemcpyHtoDAsync");
        upload.read = mine.record(mine.stream());
    }
    return memory;
}

void Gpus::while_quiet(const std::function<void()>& action) {
    if (auto* const gpu = gpu_.load(std::memory_order_acquire)) {
        const auto quiet = gpu->quieten();
        action();
    } else {
        action();
    }
}

std::unique_ptr<DeviceTensors> make_device_tensors() {
    return std::make_unique<Gpus>();
}

}  // namespace hvd::coll::cuda
