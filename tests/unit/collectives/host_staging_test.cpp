// SPDX-License-Identifier: Apache-2.0
//
// Copies between a device and the host, on the stand-in for the CUDA driver.
#include "collectives/cuda/host_staging.hpp"

#include "collectives/cuda/shared_library.hpp"
#include "tests/support/gpu/control.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <numeric>
#include <string>
#include <vector>

using Catch::Matchers::Contains;
using hvd::coll::Staging;
using hvd::coll::cuda::HostStaging;
using hvd::test::gpu::Control;
using hvd::test::gpu::ControlFunction;

namespace {

const std::string kLibrary = HVD_FAKE_CUDA;
constexpr std::size_t kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(float);

Control& control() {
    static Control* const found = reinterpret_cast<ControlFunction>(hvd::coll::cuda::find_symbol(
        hvd::coll::cuda::open_library(kLibrary).value(), hvd::test::gpu::kControlSymbol))();
    return *found;
}

/// A framework's stream of device 0.
struct Framework {
    hvd::coll::cuda::Driver cu = hvd::coll::cuda::open_driver(kLibrary).value();
    hvd::coll::cuda::Device device{cu, 0};
    hvd::coll::cuda::Device::Current current{device};
    CUstream stream = device.make_stream();

    /// In its stream, so that it is not yet there when this returns.
    void write(const Staging::Bytes& to, const std::vector<float>& values) const {
        REQUIRE(cu.cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to.get()), values.data(), kBytes,
                                     stream) == CUDA_SUCCESS);
    }
};

/// The stand-in's device memory is the host's too.
std::vector<float> floats_at(const Staging::Bytes& memory) {
    std::vector<float> values(kCount);
    std::memcpy(values.data(), memory.get(), kBytes);
    return values;
}

void copy_and_wait(HostStaging& staging,
                   Staging::Direction direction,
                   const std::vector<Staging::Copy>& copies) {
    std::promise<void> ended;
    staging.copy(0, direction, copies, [&] { ended.set_value(); });
    REQUIRE(ended.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready);
}

}  // namespace

TEST_CASE("a tensor goes to the host once its stream has made it, and back, in every order") {
    control().choose_order(GENERATE(values<std::uint64_t>({0, 1, 2, 3, 4})));
    const Framework framework;
    HostStaging staging(kLibrary);
    const auto on_device = staging.allocate(0, Staging::Kind::device, kBytes);
    const auto result = staging.allocate(0, Staging::Kind::device, kBytes);
    const auto on_host = staging.allocate(0, Staging::Kind::pinned, kBytes);
    std::vector<float> values(kCount);
    std::iota(values.begin(), values.end(), 1.0F);

    framework.write(on_device, values);
    staging.follow({.index = 0, .stream = framework.stream});
    copy_and_wait(staging, Staging::Direction::to_host, {{on_device.get(), on_host.get(), kBytes}});
    CHECK(floats_at(on_host) == values);
    copy_and_wait(staging, Staging::Direction::to_device, {{result.get(), on_host.get(), kBytes}});

    CHECK(floats_at(result) == values);
    CHECK(control().take_violations() == std::vector<std::string>{});
}

TEST_CASE("a tensor whose stream is not followed is a race, which the stand-in reports") {
    const Framework framework;
    HostStaging staging(kLibrary);
    const auto on_device = staging.allocate(0, Staging::Kind::device, kBytes);
    const auto on_host = staging.allocate(0, Staging::Kind::pinned, kBytes);
    const std::vector<float> values(kCount);

    framework.write(on_device, values);
    copy_and_wait(staging, Staging::Direction::to_host, {{on_device.get(), on_host.get(), kBytes}});

    CHECK_FALSE(control().take_violations().empty());
}

TEST_CASE("pinned memory is used again, and given back when the world ends") {
    HostStaging staging(kLibrary);
    const int before = control().calls("cuMemHostAlloc");
    for (int step = 0; step < 5; ++step) {
        const auto first = staging.allocate(0, Staging::Kind::pinned, kBytes);
        const auto second = staging.allocate(0, Staging::Kind::pinned, 2 * kBytes);
    }
    CHECK(control().calls("cuMemHostAlloc") == before + 2);
    const int freed = control().calls("cuMemFreeHost");
    staging.drain();
    staging.trim();
    CHECK(control().calls("cuMemFreeHost") == freed + 2);
    CHECK(staging.allocate(0, Staging::Kind::pinned, 0) == nullptr);
}

TEST_CASE("a driver that is missing or fails is an exception that says so") {
    HostStaging missing("libnone.so.1");
    CHECK_THROWS_WITH(missing.follow({}), Contains("no CUDA driver can be loaded"));

    HostStaging staging(kLibrary);
    CHECK_THROWS_WITH(staging.follow({.index = 1000}), Contains("cuDeviceGet"));
    control().fail("cuMemAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_THROWS_WITH(staging.allocate(0, Staging::Kind::device, 64), Contains("out of memory"));
}
