// SPDX-License-Identifier: Apache-2.0
//
// A framework with tensors on a GPU, as a caller of the C ABI sees one, on the stand-in for the
// CUDA driver.
#pragma once

#include "collectives/cuda/device.hpp"
#include "collectives/cuda/shared_library.hpp"
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"
#include "tests/support/gpu/control.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace hvd::test {

/// The GPU of a rank: its own with NCCL; the first one where tensors travel through the host.
inline int gpu_of(int rank) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it meanwhile
    const char* const operations = std::getenv("HOROVOD_GPU_OPERATIONS");
    return operations != nullptr && std::string(operations) == "host" ? 0 : rank;
}

/// The second GPU of a rank, of four at most; nobody else's first or second one.
inline int second_gpu_of(int rank) {
    return gpu_of(rank) + 4;
}

/// A framework with a stream on a GPU. What it writes is in its stream, so that it is not there yet
/// when a request is submitted. The GPU of the one that was made last is the thread's current one.
class Framework {
public:
    explicit Framework(int rank) : Framework(rank, gpu_of(rank)) {}
    Framework(int rank, int index) : index_(index) {
        control().choose_order(static_cast<std::uint64_t>(rank));
    }

    static gpu::Control& control() {
        static gpu::Control* const found =
            reinterpret_cast<gpu::ControlFunction>(coll::cuda::find_symbol(
                coll::cuda::open_library("libcuda.so.1").value(), gpu::kControlSymbol))();
        return *found;
    }

    [[nodiscard]] CUdeviceptr make(std::size_t floats) const {
        const coll::cuda::Device::Current current(device_);
        CUdeviceptr made = 0;
        require(driver_.cuMemAlloc(&made, floats * sizeof(float)) == CUDA_SUCCESS, "cuMemAlloc");
        return made;
    }
    void free(CUdeviceptr memory) const {
        const coll::cuda::Device::Current current(device_);
        require(driver_.cuMemFree(memory) == CUDA_SUCCESS, "cuMemFree");
    }
    void write(CUdeviceptr to, const std::vector<float>& values) const {
        const coll::cuda::Device::Current current(device_);
        require(driver_.cuMemcpyHtoDAsync(to, values.data(), values.size() * sizeof(float),
                                          stream_) == CUDA_SUCCESS,
                "cuMemcpyHtoDAsync");
    }
    [[nodiscard]] std::vector<float> read(const void* from, std::size_t floats) const {
        const coll::cuda::Device::Current current(device_);
        std::vector<float> values(floats);
        require(driver_.cuMemcpyDtoHAsync(values.data(), reinterpret_cast<CUdeviceptr>(from),
                                          floats * sizeof(float), stream_) == CUDA_SUCCESS &&
                    driver_.cuStreamSynchronize(stream_) == CUDA_SUCCESS,
                "reading");
        return values;
    }

    [[nodiscard]] CUstream stream() const { return stream_; }
    [[nodiscard]] int index() const { return index_; }

    static void check() {
        for (const auto& violation : control().take_violations()) {
            require(false, violation);
        }
    }

private:
    int index_;
    coll::cuda::Driver driver_ = coll::cuda::open_driver().value();
    coll::cuda::Device device_{driver_, index_};
    coll::cuda::Device::Current current_{device_};
    CUstream stream_ = device_.make_stream();
};

/// Rows of one float on the GPU.
struct Rows {
    Rows(CUdeviceptr memory, std::int64_t count, const Framework& framework) : extent{count} {
        tensor.struct_size = sizeof tensor;
        tensor.data = reinterpret_cast<void*>(memory);  // NOLINT(performance-no-int-to-ptr)
        tensor.shape = extent.data();
        tensor.ndim = 1;
        tensor.dtype = HVD_FLOAT32;
        tensor.device_type = HVD_CUDA;
        tensor.device_index = framework.index();
        tensor.stream = framework.stream();
    }
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;
    ~Rows() = default;

    std::array<std::int64_t, 1> extent;
    hvd_tensor tensor{};
};

inline hvd_request request_of(hvd_op op, const Rows& in, const Rows* out) {
    hvd_request request{};
    request.struct_size = sizeof request;
    request.name = "x";
    request.in = &in.tensor;
    request.out = out == nullptr ? nullptr : &out->tensor;
    request.prescale = 1;
    request.postscale = 1;
    request.op = op;
    request.reduce_op = HVD_SUM;
    return request;
}

/// Runs one operation and returns its result, which is on the GPU.
inline std::vector<float> run(hvd_context* context,
                              const Framework& framework,
                              hvd_request request) {
    hvd_ticket ticket = 0;
    require(hvd_run_stream(context, &request, 1, &ticket, framework.stream(), -1) == HVD_OK,
            "running");
    require(hvd_wait(context, ticket, -1) == HVD_OK, "the host's wait");
    hvd_tensor result{};
    result.struct_size = sizeof result;
    require(hvd_result(context, ticket, &result) == HVD_OK, "hvd_result");
    require(result.device_type == HVD_CUDA && result.device_index == framework.index(),
            "on the GPU");
    require(request.out == nullptr || result.data == request.out->data, "the caller's memory");
    auto values = framework.read(result.data, static_cast<std::size_t>(result.shape[0]));
    require(hvd_release(context, ticket) == HVD_OK, "releasing");
    return values;
}

}  // namespace hvd::test
