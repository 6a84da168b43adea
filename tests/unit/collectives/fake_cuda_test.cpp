// SPDX-License-Identifier: Apache-2.0
//
// The stand-in for the CUDA driver behaves as a driver and finds the faults that it looks for.
#include "collectives/cuda/driver.hpp"
#include "collectives/cuda/pack_plan.hpp"
#include "collectives/cuda/shared_library.hpp"
#include "tests/support/gpu/control.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <string>
#include <vector>

using Catch::Matchers::Contains;
using hvd::coll::DataType;
using hvd::coll::cuda::Driver;
using hvd::coll::cuda::PackEntry;
using hvd::test::gpu::Control;
using hvd::test::gpu::ControlFunction;
using hvd::test::gpu::Touch;

// NOLINTBEGIN(performance-no-int-to-ptr): CUDA has addresses as numbers
namespace {

const std::string kLibrary = HVD_FAKE_CUDA;

/// The stand-in, with the context of device 0 current.
struct Gpu {
    Driver cu = hvd::coll::cuda::open_driver(kLibrary).value();
    Control* control = reinterpret_cast<ControlFunction>(
        hvd::coll::cuda::find_symbol(hvd::coll::cuda::open_library(kLibrary).value(),
                                     hvd::test::gpu::kControlSymbol))();

    Gpu() {
        must(cu.cuInit(0));
        CUcontext context = nullptr;
        must(cu.cuDevicePrimaryCtxRetain(&context, 0));
        must(cu.cuCtxPushCurrent(context));
    }
    ~Gpu() {
        (void)cu.cuCtxPopCurrent(nullptr);
        (void)cu.cuDevicePrimaryCtxRelease(0);
    }
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;

    static void must(CUresult result) { REQUIRE(result == CUDA_SUCCESS); }

    CUstream stream() const {
        CUstream made = nullptr;
        must(cu.cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, 0));
        return made;
    }
    CUevent event() const {
        CUevent made = nullptr;
        must(cu.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
        return made;
    }
    CUdeviceptr memory(std::size_t bytes) const {
        CUdeviceptr made = 0;
        must(cu.cuMemAlloc(&made, bytes));
        return made;
    }
    std::string violation() const {
        const auto all = control->take_violations();
        REQUIRE(all.size() == 1);
        return all.front();
    }
};

void push_back_one(void* data) {
    static_cast<std::vector<int>*>(data)->push_back(1);
}

void push_back_two(void* data) {
    static_cast<std::vector<int>*>(data)->push_back(2);
}

}  // namespace

TEST_CASE("a tensor is packed on the stand-in as on a GPU: table, kernel, copies, events") {
    const Gpu gpu;
    gpu.control->choose_order(GENERATE(values<std::uint64_t>({0, 1, 2, 3})));
    const auto user = gpu.stream();
    const auto own = gpu.stream();
    const auto ready = gpu.event();
    std::vector<float> values(1000);
    std::iota(values.begin(), values.end(), 1.0F);
    const auto tensor = gpu.memory(4000);
    const auto fused = gpu.memory(2000);
    const auto table = gpu.memory(sizeof(PackEntry));
    const std::array entries{PackEntry{reinterpret_cast<std::byte*>(tensor), 0, 1000}};
    const auto launch = hvd::coll::cuda::plan_pack(
        {DataType::f32, DataType::f16, 0.5, 1}, true, entries,
        reinterpret_cast<const PackEntry*>(table), reinterpret_cast<std::byte*>(fused), 2);
    CUmodule module = nullptr;
    CUfunction kernel = nullptr;
    const std::string ptx = ".version 6.3\n.entry " + std::string(launch->kernel) + "(\n";
    Gpu::must(gpu.cu.cuModuleLoadDataEx(&module, ptx.c_str(), 0, nullptr, nullptr));
    Gpu::must(gpu.cu.cuModuleGetFunction(&kernel, module, std::string(launch->kernel).c_str()));
    std::vector<std::uint16_t> halves(1000);
    auto arguments = launch->arguments;
    std::array<void*, 1> parameters{&arguments};

    Gpu::must(gpu.cu.cuMemcpyHtoDAsync(tensor, values.data(), 4000, user));
    Gpu::must(gpu.cu.cuEventRecord(ready, user));
    Gpu::must(gpu.cu.cuStreamWaitEvent(own, ready, 0));
    Gpu::must(gpu.cu.cuMemcpyHtoDAsync(table, entries.data(), sizeof(entries), own));
    Gpu::must(gpu.cu.cuLaunchKernel(kernel, launch->blocks, 1, 1, launch->threads, 1, 1, 0, own,
                                    parameters.data(), nullptr));
    arguments = {};  // the driver has its own copy
    Gpu::must(gpu.cu.cuMemcpyDtoHAsync(halves.data(), fused, 2000, own));
    Gpu::must(gpu.cu.cuStreamSynchronize(own));

    CHECK(halves[1] == 0x3c00);    // 1
    CHECK(halves[999] == 0x5fd0);  // 500
    CHECK(gpu.control->take_violations().empty());
    for (const auto address : {tensor, fused, table}) {
        Gpu::must(gpu.cu.cuMemFree(address));
    }
    Gpu::must(gpu.cu.cuModuleUnload(module));
    Gpu::must(gpu.cu.cuEventDestroy(ready));
    Gpu::must(gpu.cu.cuStreamDestroy(own));
    Gpu::must(gpu.cu.cuStreamDestroy(user));
    CHECK(gpu.control->leaks() == std::vector<std::string>{"1 retained contexts"});
}

TEST_CASE("what no event orders happens in both orders, and what one orders in one") {
    const Gpu gpu;
    const auto first = gpu.stream();
    const auto second = gpu.stream();
    const auto event = gpu.event();
    const bool is_ordered = GENERATE(false, true);
    bool seen_12 = false;
    bool seen_21 = false;

    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        std::vector<int> order;  // of the one thread that runs both
        gpu.control->choose_order(seed);
        gpu.control->pause();
        Gpu::must(gpu.cu.cuLaunchHostFunc(first, push_back_one, &order));
        if (is_ordered) {
            Gpu::must(gpu.cu.cuEventRecord(event, first));
            Gpu::must(gpu.cu.cuStreamWaitEvent(second, event, 0));
            Gpu::must(gpu.cu.cuEventRecord(event, first));  // the wait is for the earlier record
        }
        Gpu::must(gpu.cu.cuLaunchHostFunc(second, push_back_two, &order));
        gpu.control->resume();
        Gpu::must(gpu.cu.cuStreamSynchronize(first));
        Gpu::must(gpu.cu.cuStreamSynchronize(second));
        seen_12 = seen_12 || order == std::vector{1, 2};
        seen_21 = seen_21 || order == std::vector{2, 1};
    }

    CHECK(seen_12);
    CHECK(seen_21 != is_ordered);
    CHECK(gpu.control->take_violations().empty());
}

TEST_CASE("a missing event is a race in every order") {
    const Gpu gpu;
    gpu.control->choose_order(GENERATE(values<std::uint64_t>({0, 1, 2, 3, 4, 5})));
    const auto producer = gpu.stream();
    const auto consumer = gpu.stream();
    const auto memory = gpu.memory(64);
    std::array<char, 64> host{};

    Gpu::must(gpu.cu.cuMemsetD8Async(memory, 1, 64, producer));
    Gpu::must(gpu.cu.cuMemcpyDtoHAsync(host.data(), memory, 64, consumer));

    CHECK_THAT(gpu.violation(), Contains("race: no event orders"));
}

TEST_CASE("the host's waiting orders too, and parts that do not overlap need no order") {
    const Gpu gpu;
    const auto one = gpu.stream();
    const auto other = gpu.stream();
    const auto event = gpu.event();
    const auto memory = gpu.memory(128);

    Gpu::must(gpu.cu.cuMemsetD8Async(memory, 1, 64, one));
    Gpu::must(gpu.cu.cuMemsetD8Async(memory + 64, 2, 64, other));
    Gpu::must(gpu.cu.cuEventRecord(event, other));
    Gpu::must(gpu.cu.cuEventSynchronize(event));
    Gpu::must(gpu.cu.cuMemsetD8Async(memory + 64, 3, 64, one));

    CHECK(gpu.control->take_violations().empty());
    CHECK(gpu.cu.cuEventQuery(event) == CUDA_SUCCESS);
}

TEST_CASE("an event is complete when its stream has come to it") {
    const Gpu gpu;
    const auto stream = gpu.stream();
    const auto event = gpu.event();
    std::vector<int> order;
    CHECK(gpu.cu.cuEventQuery(event) == CUDA_SUCCESS);
    gpu.control->pause();

    Gpu::must(gpu.cu.cuLaunchHostFunc(stream, push_back_one, &order));
    Gpu::must(gpu.cu.cuEventRecord(event, stream));

    CHECK(gpu.cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY);
    CHECK(gpu.cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    gpu.control->resume();
    Gpu::must(gpu.cu.cuEventSynchronize(event));
    CHECK(order.size() == 1);
}

TEST_CASE("memory that was freed, or is somebody else's, is not accessed unseen") {
    const Gpu gpu;
    const auto stream = gpu.stream();
    const auto memory = gpu.memory(64);

    SECTION("after free") {
        Gpu::must(gpu.cu.cuMemFree(memory));
        Gpu::must(gpu.cu.cuMemsetD8Async(memory, 1, 8, stream));
        CHECK_THAT(gpu.violation(), Contains("use after free: bytes 0 to 8"));
    }
    SECTION("out of bounds") {
        gpu.control->enqueue(
            stream,
            [=](const Touch& touch) {
                touch({reinterpret_cast<const void*>(memory), 65, false});
                return true;
            },
            false);
        CHECK_THAT(gpu.violation(), Contains("out of bounds: bytes 0 to 65"));
    }
    SECTION("twice") {
        Gpu::must(gpu.cu.cuMemFree(memory));
        CHECK(gpu.cu.cuMemFree(memory) != CUDA_SUCCESS);
        CHECK_THAT(gpu.violation(), Contains("a second time"));
    }
}

TEST_CASE("calls that may synchronise the device are violations while a collective is in flight") {
    const Gpu gpu;
    const auto stream = gpu.stream();
    std::atomic<bool> is_over = false;
    gpu.control->enqueue(
        stream, [&](const Touch&) { return is_over.load(); }, true);

    const auto memory = gpu.memory(8);

    is_over = true;
    CHECK_THAT(gpu.violation(), Contains("cuMemAlloc may synchronise the device"));
    Gpu::must(gpu.cu.cuMemFree(memory));
    CHECK(gpu.control->take_violations().empty());
}

TEST_CASE("an operation that waits for a peer does not hold back other streams") {
    const Gpu gpu;
    const auto waiting = gpu.stream();
    const auto other = gpu.stream();
    std::atomic<bool> is_over = false;
    std::vector<int> order;
    gpu.control->enqueue(
        waiting, [&](const Touch&) { return is_over.load(); }, true);

    Gpu::must(gpu.cu.cuLaunchHostFunc(other, push_back_one, &order));
    Gpu::must(gpu.cu.cuStreamSynchronize(other));

    CHECK(order.size() == 1);
    CHECK(gpu.cu.cuStreamQuery(waiting) == CUDA_ERROR_NOT_READY);
    is_over = true;
    Gpu::must(gpu.cu.cuStreamSynchronize(waiting));
}

TEST_CASE("any call can be made to fail or to take long, and is counted") {
    const Gpu gpu;
    gpu.control->fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    gpu.control->delay("cuStreamQuery", std::chrono::milliseconds(20));
    const auto before = gpu.control->calls("cuMemAlloc");
    CUdeviceptr memory = 0;

    CHECK(gpu.cu.cuMemAlloc(&memory, 8) == CUDA_SUCCESS);
    CHECK(gpu.cu.cuMemAlloc(&memory, 8) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(gpu.cu.cuMemAlloc(&memory, 8) == CUDA_SUCCESS);

    CHECK(gpu.control->calls("cuMemAlloc") == before + 3);
    const auto begin = std::chrono::steady_clock::now();
    Gpu::must(gpu.cu.cuStreamQuery(nullptr));
    CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(20));
}

TEST_CASE("a host function must not call the driver") {
    const Gpu gpu;
    static const Driver* driver = nullptr;
    driver = &gpu.cu;

    Gpu::must(gpu.cu.cuLaunchHostFunc(
        nullptr, [](void*) { (void)driver->cuEventQuery(nullptr); }, nullptr));

    CHECK_THAT(gpu.violation(), Contains("cuEventQuery is called in a host function"));
}

TEST_CASE("a host that waits for a device that cannot go on is reported") {
    const Gpu gpu;
    std::vector<int> order;
    gpu.control->pause();
    Gpu::must(gpu.cu.cuLaunchHostFunc(nullptr, push_back_one, &order));

    Gpu::must(gpu.cu.cuStreamSynchronize(nullptr));

    CHECK_THAT(gpu.violation(), Contains("paused"));
}

TEST_CASE("the stand-in wants a current context, as the driver does") {
    const auto cu = hvd::coll::cuda::open_driver(kLibrary).value();
    CUdeviceptr memory = 0;

    const Gpu gpu;
    Gpu::must(cu.cuCtxPopCurrent(nullptr));
    CHECK(cu.cuMemAlloc(&memory, 8) == CUDA_ERROR_INVALID_CONTEXT);
    CUcontext context = nullptr;
    Gpu::must(cu.cuDevicePrimaryCtxRetain(&context, 0));
    Gpu::must(cu.cuCtxPushCurrent(context));
    Gpu::must(cu.cuDevicePrimaryCtxRelease(0));
}

TEST_CASE("an address tells its device") {
    const Gpu gpu;
    const auto memory = gpu.memory(16);
    unsigned type = 0;
    int device = -1;
    std::array attributes{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    std::array<void*, 2> values{&type, &device};

    Gpu::must(gpu.cu.cuPointerGetAttributes(2, attributes.data(), values.data(), memory + 15));
    CHECK(type == CU_MEMORYTYPE_DEVICE);
    CHECK(device == 0);
    Gpu::must(gpu.cu.cuPointerGetAttributes(2, attributes.data(), values.data(),
                                            reinterpret_cast<CUdeviceptr>(&type)));
    CHECK(type == 0);
}
// NOLINTEND(performance-no-int-to-ptr)
