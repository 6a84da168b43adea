// SPDX-License-Identifier: Apache-2.0
//
// One allreduce of a tensor on the GPU by the C ABI and by NCCL itself, by turns in one process of
// one rank: `abi_latency`. Prints rows for report.py. Exit code 77: no GPU.
#include "collectives/cuda/device.hpp"
#include "collectives/nccl/library.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hvd/hvd.h"

namespace {

using hvd::coll::cuda::Device;
using hvd::coll::cuda::Driver;
namespace nccl = hvd::coll::nccl;

constexpr int kNoGpu = 77;
constexpr int kRounds = 9;
constexpr int kTurns = 100;

/// The arguments of an allreduce on either side.
struct Memory {
    CUdeviceptr in = 0;
    CUdeviceptr out = 0;
    std::int64_t count = 0;  // of floats
};

void* as_pointer(CUdeviceptr address) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA has addresses as numbers
    return reinterpret_cast<void*>(address);
}

void require(bool holds, const std::string& what) {
    if (!holds) {
        throw hvd::Exception({hvd::Errc::internal, what});
    }
}

/// The current context's memory and stream, which is a stream as a framework has it.
class Gpu {
public:
    explicit Gpu(const Driver& driver) : driver_(driver), device_(driver, 0), current_(device_) {
        check(driver_, driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0),
              "cuStreamCreateWithPriority");
    }

    [[nodiscard]] CUstream stream() const { return stream_; }

    [[nodiscard]] Memory allocate(std::int64_t count) const {
        Memory memory{.count = count};
        const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
        check(driver_, driver_.cuMemAlloc(&memory.in, bytes), "cuMemAlloc");
        check(driver_, driver_.cuMemAlloc(&memory.out, bytes), "cuMemAlloc");
        return memory;
    }

    /// Microseconds from the first of some calls until the stream is done with them: the median.
    [[nodiscard]] double time(int calls, const std::function<void()>& call) const {
        std::vector<double> taken;
        for (int turn = 0; turn < kTurns; ++turn) {
            const auto begin = std::chrono::steady_clock::now();
            for (int made = 0; made < calls; ++made) {
                call();
            }
            check(driver_, driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
            taken.push_back(
                std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
                    .count());
        }
        std::ranges::nth_element(taken, taken.begin() + kTurns / 2);
        return taken[kTurns / 2];
    }

private:
    const Driver& driver_;
    Device device_;
    Device::Current current_;
    CUstream stream_ = nullptr;
};

/// NCCL with a communicator of one rank.
class Bare {
public:
    explicit Bare(nccl::Library library) : library_(std::move(library)) {
        ncclUniqueId id{};
        require(library_.ncclGetUniqueId(&id) == ncclSuccess, "ncclGetUniqueId");
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        require(library_.ncclCommInitRankConfig(&communicator_, 1, id, 0, &config) == ncclSuccess,
                "ncclCommInitRankConfig");
    }

    void allreduce(const Memory& memory, CUstream stream) const {
        const auto count = static_cast<std::size_t>(memory.count);
        const auto result =
            library_.ncclAllReduce(as_pointer(memory.in), as_pointer(memory.out), count, ncclFloat,
                                   ncclSum, communicator_, reinterpret_cast<cudaStream_t>(stream));
        require(result == ncclSuccess, "ncclAllReduce");
    }

private:
    nccl::Library library_;
    ncclComm_t communicator_ = nullptr;
};

/// libhorovod in a world of one rank.
class Ours {
public:
    Ours() { require_ok(hvd_init(nullptr, &context_)); }
    Ours(const Ours&) = delete;
    Ours& operator=(const Ours&) = delete;
    ~Ours() { (void)hvd_shutdown(context_); }

    void allreduce(const Memory& memory, CUstream stream) const {
        hvd_tensor in{};
        in.struct_size = sizeof in;
        in.data = as_pointer(memory.in);
        in.shape = &memory.count;
        in.ndim = 1;
        in.dtype = HVD_FLOAT32;
        in.device_type = HVD_CUDA;
        in.stream = stream;
        hvd_tensor out = in;
        out.data = as_pointer(memory.out);
        hvd_request request{};
        request.struct_size = sizeof request;
        request.name = "tensor";
        request.in = &in;
        request.out = &out;
        request.prescale = 1;
        request.postscale = 1;
        request.op = HVD_ALLREDUCE;
        request.reduce_op = HVD_SUM;
        hvd_ticket ticket = 0;
        require_ok(hvd_run_stream(context_, &request, 1, &ticket, stream, kLimitMs));
        require_ok(hvd_release(context_, ticket));
    }

private:
    static constexpr std::int64_t kLimitMs = 60'000;

    static void require_ok(hvd_status status) { require(status == HVD_OK, hvd_last_error()); }

    hvd_context* context_ = nullptr;
};

double median(std::array<double, kRounds> values) {
    std::ranges::sort(values);
    return values[kRounds / 2];
}

/// Medians of the C ABI and of NCCL itself.
std::pair<double, double> compare(const Gpu& gpu,
                                  const Ours& ours,
                                  const Bare& bare,
                                  std::int64_t count,
                                  int calls) {
    const auto memory = gpu.allocate(count);
    std::array<double, kRounds> our_times{};
    std::array<double, kRounds> bare_times{};
    for (int round = -1; round < kRounds; ++round) {
        const double first = gpu.time(calls, [&] { ours.allreduce(memory, gpu.stream()); });
        const double second = gpu.time(calls, [&] { bare.allreduce(memory, gpu.stream()); });
        if (round >= 0) {  // the first one warms up
            our_times.at(static_cast<std::size_t>(round)) = first;
            bare_times.at(static_cast<std::size_t>(round)) = second;
        }
    }
    return {median(our_times), median(bare_times)};
}

int run() {
    auto driver = hvd::coll::cuda::open_driver();
    auto library = nccl::open_library({.named = {}, .folders = {}});
    if (!driver || !library) {
        std::fprintf(stderr, "%s\n", (driver ? library.error() : driver.error()).message.c_str());
        return kNoGpu;
    }
    const Gpu gpu(*driver);
    const auto version = nccl::version_text(library->version);
    const Bare bare(*std::move(library));
    const Ours ours;
    std::array<char, 100> name{};
    CUdevice device = 0;
    check(*driver, driver->cuDeviceGet(&device, 0), "cuDeviceGet");
    check(*driver, driver->cuDeviceGetName(name.data(), static_cast<int>(name.size()), device),
          "cuDeviceGetName");
    const auto where = std::string(name.data()) + ", NCCL " + version;
    const auto [small, bare_small] = compare(gpu, ours, bare, 1, 1);
    std::printf("ROW abi_4b | %.1f us (%.1f and %.1f us) | %s\n", small - bare_small, small,
                bare_small, where.c_str());
    for (const auto& [key, calls] : {std::pair("abi_64mb", 1), std::pair("abi_20_64mb", 20)}) {
        const auto [large, bare_large] = compare(gpu, ours, bare, 16 << 20, calls);
        std::printf("ROW %s | %.1f %% (%.1f and %.1f us) | %s\n", key,
                    100 * large / bare_large - 100, large, bare_large, where.c_str());
    }
    return 0;
}

}  // namespace

int main() {
    try {
        return run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "abi_latency: %s\n", error.what());
        return 1;
    }
}
