// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/gpus.hpp"

#include "collectives/cuda/factory.hpp"

#include <algorithm>
#include <utility>

namespace hvd::coll::cuda {

Gpu* Gpus::find(int device) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = gpus_.find(device);
    return found == gpus_.end() ? nullptr : found->second.get();
}

void Gpus::attach(int device) {
    if (find(device) != nullptr) {
        return;
    }
    const std::lock_guard opens(opening_);
    if (find(device) != nullptr) {
        return;  // by another thread meanwhile
    }
    while_quiet([&] {
        auto opened = std::make_unique<Gpu>(open_once(driver_, library_), device);
        const std::lock_guard lock(mutex_);
        gpus_.emplace(device, std::move(opened));
        if (gpus_.size() == 1) {
            first_.store(device, std::memory_order_release);
        }
    });
}

Gpu& Gpus::gpu(int device) const {
    auto* const gpu = find(device);
    if (gpu == nullptr) {
        throw Exception(
            {Errc::internal, "GPU " + std::to_string(device) + " was not opened by this rank"});
    }
    return *gpu;
}

std::vector<Gpu*> Gpus::all() const {
    const std::lock_guard lock(mutex_);
    std::vector<Gpu*> all;
    all.reserve(gpus_.size());
    for (const auto& [device, gpu] : gpus_) {
        all.push_back(gpu.get());
    }
    return all;
}

bool Gpus::are_idle() const {
    const auto gpus = all();
    return std::ranges::all_of(gpus, [](const Gpu* gpu) {
        const Device::Current current(gpu->device());
        return gpu->is_idle();
    });
}

SharedEvent Gpus::ready(const DevicePlace& place) {
    auto& mine = gpu(place.index);
    if (place.event != nullptr) {
        return mine.borrow(static_cast<CUevent>(place.event));
    }
    const Device::Current current(mine.device());
    auto* const stream = static_cast<CUstream>(place.stream);
    mine.device().refuse_capture(stream);
    return mine.record(stream);
}

DeviceBytes Gpus::allocate(int device, std::size_t bytes) {
    return gpu(device).memory().allocate(bytes);
}

DeviceBytes Gpus::upload(int device, std::span<const std::byte> bytes) {
    auto& mine = gpu(device);
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
    std::vector<QuietTurn::Turn> quiet;
    for (auto* const gpu : all()) {
        quiet.push_back(gpu->quieten());
    }
    action();
}

std::unique_ptr<DeviceTensors> make_device_tensors() {
    return std::make_unique<Gpus>();
}

}  // namespace hvd::coll::cuda
