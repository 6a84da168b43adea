// SPDX-License-Identifier: Apache-2.0
//
// Memory of GPUs that worlds take, through the C ABI and on the stand-ins for the CUDA driver and
// NCCL.
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"
#include "tests/integration/engine/gpu_framework.hpp"
#include "tests/integration/engine/gpu_nccl.hpp"
#include "tests/integration/engine/gpu_values.hpp"

#include <array>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace hvd::test {
namespace {

/// The memory of a world on the GPU is given back at its end. What it keeps for later is given back
/// sooner where memory is short.
void device_memory() {
    std::size_t after_first = 0;
    for (const std::size_t floats : {1U, 1U << 20U}) {
        auto world = hvd::init();
        auto* const context = world.context();
        const Framework framework(world.rank());
        const auto memory = framework.make(floats);
        const Rows rows(memory, static_cast<std::int64_t>(floats), framework);
        const std::vector<float> ones(floats, 1);
        framework.write(memory, ones);
        const auto gather = request_of(HVD_ALLGATHER, rows, nullptr);
        require(run(context, framework, gather).back() == 1, "a gathered row");
        framework.free(memory);
        const auto shorter = framework.make(floats / 2 + 1);
        const Rows half(shorter, static_cast<std::int64_t>(floats / 2 + 1), framework);
        const std::vector<float> twos(floats / 2 + 1, 2);
        framework.write(shorter, twos);
        Framework::control().fail("cuMemAllocAsync", 0, CUDA_ERROR_OUT_OF_MEMORY);
        require(run(context, framework, request_of(HVD_ALLGATHER, half, nullptr)).back() == 2,
                "a gathered row, with little memory");
        framework.free(shorter);
        world.barrier("all have it");
        require(hvd_shutdown(context) == HVD_OK, "leaving");
        Framework::check();  // waits for the streams, in whose order memory is freed
        const auto bytes = Framework::control().device_bytes();
        require(floats == 1 || bytes == after_first, std::to_string(bytes) + " bytes on the GPU, " +
                                                         std::to_string(after_first) +
                                                         " after the first world");
        after_first = bytes;
    }
}

/// Memory for Adasum is taken and given back while sums are in flight.
void device_adasum_beside_sums() {
    auto world = hvd::init();
    auto* const context = world.context();
    const Framework framework(world.rank());
    const Value one(framework, 1);
    require(run(context, framework, one.sum()).front() == static_cast<float>(world.size()), "sum");
    constexpr std::size_t kMost = 200'000;
    const auto memory = framework.make(kMost);
    const std::vector<float> twos(kMost, 2);
    framework.write(memory, twos);
    std::int64_t rows = 1000;  // each time more than what is kept for
    for (int step = 0; step < 8; ++step, rows *= 2) {
        const Value other(framework, 1);
        const Rows in(memory, rows, framework);
        std::array requests{other.sum(), request_of(HVD_ALLREDUCE, in, nullptr)};
        requests[0].name = "beside";
        requests[1].name = "adasum";
        requests[1].reduce_op = HVD_ADASUM;
        hvd_ticket sum = 0;
        hvd_ticket adasum = 0;
        Framework::control().pause();
        require(hvd_run_stream(context, requests.data(), 1, &sum, nullptr, kLimitMs) == HVD_OK,
                "a sum in the stream");
        {
            const std::jthread later([] {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                Framework::control().resume();
            });
            require(hvd_submit(context, &requests[1], 1, &adasum) == HVD_OK, "submitting");
        }
        require(hvd_wait(context, adasum, kLimitMs) == HVD_OK, "Adasum");
        hvd_tensor result{};
        result.struct_size = sizeof result;
        require(hvd_result(context, adasum, &result) == HVD_OK, "hvd_result");
        require(framework.read(result.data, static_cast<std::size_t>(rows)).back() == 2,
                "Adasum of equal vectors");
        require(hvd_wait(context, sum, kLimitMs) == HVD_OK, "the sum");
        // Gives memory of the GPU back beside another sum.
        Framework::control().pause();
        hvd_ticket last = 0;
        require(hvd_run_stream(context, requests.data(), 1, &last, nullptr, kLimitMs) == HVD_OK,
                "another sum in the stream");
        require(hvd_release(context, adasum) == HVD_OK, "releasing");
        Framework::control().resume();
        require(hvd_wait(context, last, kLimitMs) == HVD_OK, "its end");
        require(hvd_release(context, sum) == HVD_OK && hvd_release(context, last) == HVD_OK,
                "releasing");
    }
    Framework::check();
    framework.free(memory);
    world.barrier("end");
    require(hvd_shutdown(context) == HVD_OK, "leaving");
    Framework::check();
}

/// NCCL's memory for fused messages, as it was asked for.
struct Registrations {
    int communicators = nccl_control().calls("ncclCommInitRankConfig");
    int allocations = nccl_control().calls("ncclMemAlloc");
    int registered = nccl_control().calls("ncclCommRegister");
    int deregistered = nccl_control().calls("ncclCommDeregister");
    int aborted = nccl_control().calls("ncclCommAbort");
    int freed = nccl_control().calls("ncclMemFree");
};

/// A sum whose values change, so that it goes through memory of the library.
void run_packed(const World& world, const Framework& framework, std::int64_t rows) {
    const auto memory = framework.make(static_cast<std::size_t>(rows));
    const std::vector<float> ones(static_cast<std::size_t>(rows), 1);
    framework.write(memory, ones);
    const Rows in(memory, rows, framework);
    auto sum = request_of(HVD_ALLREDUCE, in, &in);
    sum.name = "packed";
    sum.prescale = 2;
    require(run(world.context(), framework, sum).back() == 2 * static_cast<float>(world.size()),
            "a sum");
    framework.free(memory);
}

/// Each communicator of a GPU registers the memory of the GPU, which is there once.
void device_registered() {
    auto world = hvd::init({.limit = {}, .process_sets = {}, .dynamic_process_sets = true});
    auto* const context = world.context();
    const Framework framework(world.rank());
    run_packed(world, framework, 1000);
    const auto pool = Framework::control().calls("cuMemAllocAsync");
    run_packed(world, framework, 100'000);
    require(Framework::control().calls("cuMemAllocAsync") == pool, "in memory that was there");
    run_packed(world, framework, 9'000'000);
    require(Framework::control().calls("cuMemAllocAsync") == pool + 1, "too large for it");
    const Registrations first;
    require(first.allocations == 1 && first.registered == 1, "registered once");

    std::vector<std::int32_t> members(static_cast<std::size_t>(world.size()));
    std::iota(members.begin(), members.end(), 0);
    members.resize(members.size() > 1 ? members.size() - 1 : 1);
    if (world.size() > 1) {
        const auto set = world.add_process_set(members);
        if (world.rank() != world.size() - 1) {
            const Value one(framework, 1);
            auto sum = one.sum();
            sum.process_set = set.id;
            sum.prescale = 3;
            require(
                run(context, framework, sum).front() == 3 * static_cast<float>(world.size() - 1),
                "a sum of the set");
            const Registrations second;
            require(second.allocations == 1 && second.registered == 2, "registered with the set's");
        }
        world.remove_process_set(set);
    }
    world.barrier("end");
    require(hvd_shutdown(context) == HVD_OK, "leaving");
    const Registrations last;
    // The end of a world aborts its communicators, which ends their registrations; that of a set
    // closes them.
    require(last.registered == last.communicators && last.aborted == 1 &&
                last.deregistered == last.registered - 1 && last.freed == 1,
            "all is given back");
    require_nothing_of_nccl();
    Framework::check();
}

/// Where one rank may not keep so much memory, no rank registers its own.
void device_registered_by_some() {
    // NOLINTBEGIN(concurrency-mt-unsafe): this process has one thread
    if (std::string(std::getenv("PMI_RANK")) == "0") {
        (void)::setenv("HOROVOD_GPU_BUFFER_LIMIT", "1048576", 1);
    }
    // NOLINTEND(concurrency-mt-unsafe)
    auto world = hvd::init();
    const Framework framework(world.rank());
    run_packed(world, framework, 1000);
    const Registrations all;
    require(all.allocations == 0 && all.registered == 0, "nothing is registered");
    world.barrier("end");
    require(hvd_shutdown(world.context()) == HVD_OK, "leaving");
    Framework::check();
}

/// A GPU without memory for it is an error that says how to do without.
void device_registered_without_memory() {
    auto world = hvd::init();
    const Framework framework(world.rank());
    nccl_control().fail("ncclMemAlloc", 0, ncclUnhandledCudaError);
    const Value one(framework, 1);
    require_failure(world.context(), one.sum(), HVD_INTERNAL,
                    {"ncclMemAlloc of 35651584 bytes", "HOROVOD_GPU_BUFFER_LIMIT=0"});
    require(hvd_shutdown(world.context()) == HVD_OK, "leaving");
    require_nothing_of_nccl();
}

}  // namespace

std::map<std::string, void (*)()> gpu_memory_cases() {
    return {{"device_memory", device_memory},
            {"device_adasum_beside_sums", device_adasum_beside_sums},
            {"device_registered", device_registered},
            {"device_registered_by_some", device_registered_by_some},
            {"device_registered_without_memory", device_registered_without_memory}};
}

}  // namespace hvd::test
