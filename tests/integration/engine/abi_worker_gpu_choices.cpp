// SPDX-License-Identifier: Apache-2.0
//
// Ranks that join, and ranks with a second GPU, through the C ABI and on the stand-ins for the CUDA
// driver and NCCL.
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"
#include "tests/integration/engine/gpu_framework.hpp"
#include "tests/integration/engine/gpu_values.hpp"

#include <string>

namespace hvd::test {
namespace {

/// Rank 0 submits no tensor and names its GPU in its join.
void device_join() {
    auto world = hvd::init();
    auto* const context = world.context();
    const Framework framework(world.rank());
    if (world.rank() != 0) {
        const Value one(framework, 1);
        require(run(context, framework, one.sum()).front() == static_cast<float>(world.size() - 1),
                "the sum of those that have not joined");
    }
    auto place = place_of(framework);
    join(context, &place);
    place.data = &place;
    require_failure(context, join_of(&place), HVD_INVALID_ARGUMENT, {"no data and no dimensions"});
    Framework::check();
    world.barrier("end");
}

/// Rank 0 joins without a GPU, so that the others' operation cannot be done. That fails alone.
void device_join_without_gpu() {
    auto world = hvd::init();
    auto* const context = world.context();
    const Framework framework(world.rank());
    if (world.rank() != 0) {
        const Value one(framework, 1);
        require_failure(context, one.sum(), HVD_MISMATCH,
                        {"'x'", "rank 0 has joined without one", "hvd.join(device)"});
    }
    join(context, nullptr);
    world.barrier("end");
}

/// After sums on both GPUs of each rank, rank 0 takes part on its second one in what the others do
/// on either.
void device_join_on_second() {
    auto world = hvd::init();
    auto* const context = world.context();
    const Framework first(world.rank());
    const Framework second(world.rank(), second_gpu_of(world.rank()));
    for (const auto* const framework : {&first, &second}) {
        const Value one(*framework, 1);
        require(run(context, *framework, one.sum()).front() == static_cast<float>(world.size()),
                "a sum of all");
    }
    for (const auto* const framework : {&second, &first}) {
        if (world.rank() != 0) {
            const Value one(*framework, 1);
            require(
                run(context, *framework, one.sum()).front() == static_cast<float>(world.size() - 1),
                "the sum of those that have not joined");
        }
    }
    const auto place = place_of(second);
    join(context, &place);
    Framework::check();
    world.barrier("end");
}

/// The last rank's second GPU cannot be opened at first: an error of that rank, which can go on.
void device_second_gpu_fails() {
    auto world = hvd::init();
    auto* const context = world.context();
    const Framework first(world.rank());
    const Framework second(world.rank(), second_gpu_of(world.rank()));
    const Value on_first(first, 1);
    require(run(context, first, on_first.sum()).front() == static_cast<float>(world.size()), "sum");
    const Value on_second(second, 1);
    if (world.rank() == world.size() - 1) {
        Framework::control().fail("cuStreamCreateWithPriority", 0, CUDA_ERROR_OUT_OF_MEMORY);
        require_failure(context, on_second.sum(), HVD_INTERNAL,
                        {"'x'", "cuStreamCreateWithPriority"});
    }
    const auto size = static_cast<float>(world.size());
    require(run(context, first, on_first.sum()).front() == size * size, "the sum of sums");
    require(run(context, second, on_second.sum()).front() == static_cast<float>(world.size()),
            "a sum on the second GPU");
    Framework::check();
    world.barrier("end");
}

/// The ranks have different GPUs first, and then all use the second one of rank 0.
void device_second_same_gpu() {
    auto world = hvd::init();
    const Framework first(world.rank());
    const Framework second(world.rank(), second_gpu_of(0));
    const Value on_first(first, 1);
    require(run(world.context(), first, on_first.sum()).front() == static_cast<float>(world.size()),
            "sum");
    const Value on_second(second, 1);
    require_failure(
        world.context(), on_second.sum(), HVD_INVALID_ARGUMENT,
        {"ranks 0 and 1 both have tensors on", "torch.cuda.set_device(hvd.local_rank())"});
}

}  // namespace

std::map<std::string, void (*)()> gpu_choice_cases() {
    return {{"device_join", device_join},
            {"device_join_without_gpu", device_join_without_gpu},
            {"device_join_on_second", device_join_on_second},
            {"device_second_gpu_fails", device_second_gpu_fails},
            {"device_second_same_gpu", device_second_same_gpu}};
}

}  // namespace hvd::test
