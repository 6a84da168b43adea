// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU by the CUDA driver alone, which is looked for when the program runs: it is built
// in the same way on machines with and without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

class CudaDriver {
public:
    CudaDriver() : library_(::dlopen("libcuda.so.1", RTLD_NOW)) {
        if (library_ != nullptr) {
            find_ = reinterpret_cast<Find>(::dlsym(library_, "cuGetProcAddress_v2"));
        }
    }

    /// How many GPUs there are; 0 without a driver of CUDA 12 or later.
    [[nodiscard]] int gpus() const {
        int count = 0;
        const bool is_usable = find_ != nullptr && status("cuInit", 0U) == 0 &&
                               status("cuDeviceGetCount", &count) == 0;
        return is_usable ? count : 0;
    }

    /// Throws where the driver's function fails.
    template <class... Arguments>
    void call(const char* name, Arguments... arguments) const {
        if (const int error = status(name, arguments...); error != 0) {
            throw std::runtime_error(std::string(name) + ": CUDA error " + std::to_string(error));
        }
    }

private:
    using Find = int (*)(const char*, void**, int version, std::uint64_t flags, int* status);

    template <class... Arguments>
    [[nodiscard]] int status(const char* name, Arguments... arguments) const {
        constexpr int kVersion = 12000;
        void* function = nullptr;
        const int error = find_(name, &function, kVersion, 0, nullptr);
        return error != 0 || function == nullptr
                   ? -1
                   : reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
    }

    void* library_;  // stays open
    Find find_ = nullptr;
};

/// Floats on a GPU, and a stream for them. Both live as long as the process.
class GpuMemory {
public:
    GpuMemory(const CudaDriver& driver, int gpu, std::size_t floats) : driver_(driver) {
        void* context = nullptr;
        std::uint64_t address = 0;
        driver.call("cuDevicePrimaryCtxRetain", &context, gpu);
        driver.call("cuCtxPushCurrent", context);
        driver.call("cuStreamCreateWithPriority", &stream_, 1U, 0);
        driver.call("cuMemAlloc", &address, floats * sizeof(float));
        data_ = {reinterpret_cast<float*>(address), floats};
    }

    [[nodiscard]] std::span<float> data() const { return data_; }
    [[nodiscard]] void* stream() const { return stream_; }

    /// In the stream's order. `values` stay as they are until the stream has got there.
    void write(std::span<const float> values) const {
        driver_.call("cuMemcpyHtoDAsync", address(), static_cast<const void*>(values.data()),
                     values.size_bytes(), stream_);
    }

    /// Waits for the stream.
    void read(std::span<float> values) const {
        driver_.call("cuMemcpyDtoHAsync", static_cast<void*>(values.data()), address(),
                     values.size_bytes(), stream_);
        driver_.call("cuStreamSynchronize", stream_);
    }

private:
    [[nodiscard]] std::uint64_t address() const {
        return reinterpret_cast<std::uint64_t>(data_.data());
    }

    const CudaDriver& driver_;
    std::span<float> data_;
    void* stream_ = nullptr;
};
