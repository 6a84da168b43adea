// SPDX-License-Identifier: Apache-2.0
//
// Worlds with tensors on GPUs that fail, and their ends, through the C ABI and on the stand-ins for
// the CUDA driver and NCCL.
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"
#include "tests/integration/engine/gpu_framework.hpp"
#include "tests/integration/engine/gpu_nccl.hpp"
#include "tests/integration/engine/gpu_values.hpp"

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace hvd::test {
namespace {

void device_same_gpu() {
    auto world = hvd::init();
    const Framework framework(world.rank(), 0);
    const Value one(framework, 1);
    require_failure(
        world.context(), one.sum(), HVD_INVALID_ARGUMENT,
        {"ranks 0 and 1 both have tensors on", "torch.cuda.set_device(hvd.local_rank())"});
}

void device_other_nccl() {
    auto world = hvd::init();
    if (world.rank() == 1) {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): NCCL is loaded with the first tensor
        (void)::setenv(gpu::kEnvNcclVersion, "22707", 1);
    }
    const Framework framework(world.rank());
    const Value one(framework, 1);
    require_failure(world.context(), one.sum(), HVD_MISMATCH,
                    {"rank 0 has NCCL 2.28.5, rank 1 has NCCL 2.27.7"});
}

/// The last rank dies with a collective in its stream, which its GPU never gets to.
void device_death_inside() {
    auto world = hvd::init();
    auto* const context = world.context();
    const Framework framework(world.rank());
    const Value one(framework, 1);
    require(run(context, framework, one.sum()).front() == static_cast<float>(world.size()), "sum");
    const auto sum = one.sum();
    hvd_ticket ticket = 0;
    if (world.rank() == world.size() - 1) {
        Framework::control().pause();
        require(hvd_submit(context, &sum, 1, &ticket) == HVD_OK, "submitting");
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        ::_exit(0);
    }
    require(hvd_run_stream(context, &sum, 1, &ticket, framework.stream(), kLimitMs) == HVD_OK,
            "enqueued");
    const auto name = "rank " + std::to_string(world.size() - 1);
    require(hvd_wait(context, ticket, kLimitMs) == HVD_UNAVAILABLE, "the wait of the host");
    require(std::string(hvd_last_error()).find(name) != std::string::npos, "the wait names it");
    require(hvd_release(context, ticket) == HVD_OK, "releasing");
    require_failure(context, sum, HVD_UNAVAILABLE, {name});
    require(hvd_shutdown(context) == HVD_OK, "leaving");
}

/// A world that an asynchronous error of NCCL has ended is followed by another one.
void device_init_again() {
    for (int round = 0; round < 2; ++round) {
        auto world = hvd::init();
        auto* const context = world.context();
        const Framework framework(world.rank());
        const Value one(framework, 1);
        require(run(context, framework, one.sum()).front() == static_cast<float>(world.size()),
                "a sum in world " + std::to_string(round));
        world.barrier("all have it");
        nccl_control().set_async_error(ncclRemoteError);
        const auto sum = one.sum();
        hvd_ticket ticket = 0;
        (void)hvd_run_stream(context, &sum, 1, &ticket, framework.stream(), kLimitMs);
        require(hvd_wait(context, ticket, kLimitMs) != HVD_OK, "a failure");
        require(hvd_release(context, ticket) == HVD_OK, "releasing");
        require(hvd_shutdown(context) == HVD_OK, "leaving");
        nccl_control().set_async_error(ncclSuccess);
        require_nothing_of_nccl();
    }
}

/// A call fails on the GPU of the last rank, inside the engine, and that rank leaves at once: the
/// others get the cause all the same.
void require_cause(const std::string& function, const std::function<void()>& fail) {
    auto world = hvd::init();
    auto* const context = world.context();
    const Framework framework(world.rank());
    const Value one(framework, 1);
    require(run(context, framework, one.sum()).front() == static_cast<float>(world.size()), "sum");
    world.barrier("all have it");
    const int failing = world.size() - 1;
    if (world.rank() == failing) {
        fail();
        require_failure(context, one.sum(), HVD_INTERNAL, {function});
    } else {
        require_failure(context, one.sum(), HVD_ABORTED,
                        {"rank " + std::to_string(failing), "has failed: " + function, "'x'"});
    }
    require(hvd_shutdown(context) == HVD_OK, "leaving");
}

void device_failure_told() {
    for (int round = 0; round < 10; ++round) {
        require_cause("cuStreamWaitEvent", [] {
            Framework::control().fail("cuStreamWaitEvent", 0, CUDA_ERROR_LAUNCH_FAILED);
        });
        require_cause("ncclAllReduce",
                      [] { nccl_control().fail("ncclAllReduce", 0, ncclUnhandledCudaError); });
    }
}

/// Rank 0 takes long for the unique id of a communicator. Meanwhile it runs operations of another
/// process set.
void device_slow_id() {
    constexpr std::chrono::milliseconds kDelay{1000};
    auto world = hvd::init({.limit = {}, .process_sets = {}, .dynamic_process_sets = true});
    auto* const context = world.context();
    const auto alone = world.add_process_set(std::vector<std::int32_t>{0});
    const Framework framework(world.rank());
    const Value one(framework, 1);
    nccl_control().delay("ncclGetUniqueId", kDelay);
    const auto sum = one.sum();
    hvd_ticket ticket = 0;
    require(hvd_submit(context, &sum, 1, &ticket) == HVD_OK, "submitting");
    if (world.rank() == 0) {
        while (nccl_control().calls("ncclGetUniqueId") == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        const auto began = std::chrono::steady_clock::now();
        std::vector<float> data{1};
        for (int step = 0; step < 10; ++step) {
            world.allreduce("of the host", std::span(data), {.op = ReduceOp::sum}, alone);
        }
        require(std::chrono::steady_clock::now() - began < kDelay / 2, "others go on meanwhile");
    }
    require(hvd_wait(context, ticket, kLimitMs) == HVD_OK, "the sum");
    require(hvd_release(context, ticket) == HVD_OK, "releasing");
    Framework::check();
    world.barrier("end");
}

/// A world ends while rank 0 makes a unique id, which takes for ever. The next one is not touched.
void device_stuck_id() {
    constexpr std::chrono::seconds kStuck{600};
    {
        auto world = hvd::init();
        auto* const context = world.context();
        const Framework framework(world.rank());
        const Value one(framework, 1);
        nccl_control().delay("ncclGetUniqueId", kStuck);
        const auto sum = one.sum();
        hvd_ticket ticket = 0;
        require(hvd_submit(context, &sum, 1, &ticket) == HVD_OK, "submitting");
        while (world.rank() == 0 && nccl_control().calls("ncclGetUniqueId") == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        if (world.rank() != 0) {
            require(hvd_wait(context, ticket, kLimitMs) != HVD_OK, "rank 0 leaves");
        }
        const auto began = std::chrono::steady_clock::now();
        require(hvd_shutdown(context) == HVD_OK, "leaving");
        require(std::chrono::steady_clock::now() - began < std::chrono::seconds(15), "at once");
        require(hvd_wait(context, ticket, kLimitMs) != HVD_OK, "the sum has failed");
        require(hvd_release(context, ticket) == HVD_OK, "releasing");
    }
    nccl_control().delay("ncclGetUniqueId", {});
    auto world = hvd::init();
    const Framework framework(world.rank());
    const Value one(framework, 1);
    require(run(world.context(), framework, one.sum()).front() == static_cast<float>(world.size()),
            "a sum in the next world");
    world.barrier("end");
}

void device_capture() {
    auto world = hvd::init();
    auto* const context = world.context();
    const Framework framework(world.rank());
    const Value one(framework, 1);
    const auto sum = one.sum();
    hvd_ticket ticket = 0;
    Framework::control().capture(framework.stream());
    require(hvd_submit(context, &sum, 1, &ticket) == HVD_UNSUPPORTED, "submitted in a capture");
    Framework::control().capture(nullptr);
    require(hvd_submit(context, &sum, 1, &ticket) == HVD_OK, "submitting");
    Framework::control().capture(framework.stream());
    require(hvd_wait_stream(context, ticket, framework.stream(), kLimitMs) == HVD_UNSUPPORTED,
            "awaited in a capture");
    require(std::string(hvd_last_error()).find("capturing a CUDA graph") != std::string::npos,
            "says why");
    Framework::control().capture(nullptr);
    require(hvd_wait_stream(context, ticket, framework.stream(), kLimitMs) == HVD_OK, "waiting");
    require(hvd_release(context, ticket) == HVD_OK, "releasing");
    Framework::check();
    world.barrier("end");
}

}  // namespace

std::map<std::string, void (*)()> gpu_end_cases() {
    return {{"device_same_gpu", device_same_gpu},         {"device_other_nccl", device_other_nccl},
            {"device_death_inside", device_death_inside}, {"device_init_again", device_init_again},
            {"device_failure_told", device_failure_told}, {"device_slow_id", device_slow_id},
            {"device_stuck_id", device_stuck_id},         {"device_capture", device_capture}};
}

}  // namespace hvd::test
