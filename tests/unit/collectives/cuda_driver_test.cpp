// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/driver.hpp"

#include <catch2/catch.hpp>

#include <string>

using Catch::Matchers::Contains;
using hvd::Errc;
using hvd::coll::cuda::open_driver;

namespace {

const std::string kFakes = HVD_FAKES;

}  // namespace

TEST_CASE("the driver's table is complete, with the version that the driver says") {
    const auto driver = open_driver(kFakes + "fake_driver/libcuda.so.1");

    REQUIRE(driver);
    CHECK(driver->version == 12080);
    CHECK_THAT(driver->path, Contains("fake_driver/libcuda.so.1"));
#define CHECK_MEMBER(name, since) CHECK(driver->name != nullptr);
    HVD_CUDA_FUNCTIONS(CHECK_MEMBER)
#undef CHECK_MEMBER
}

TEST_CASE("a driver that lacks a function is too old, and the error says for which CUDA") {
    const auto driver = open_driver(kFakes + "fake_driver_old/libcuda.so.1");

    REQUIRE_FALSE(driver);
    CHECK(driver.error().code == Errc::unsupported);
    CHECK_THAT(driver.error().message,
               Contains("fake_driver_old/libcuda.so.1 (CUDA 11.3) is too old") &&
                   Contains("no cuDevicePrimaryCtxRelease") && Contains("CUDA 11.3 or later"));
}

TEST_CASE("a library that is no driver is said to have no cuGetProcAddress") {
    const auto driver = open_driver("libc.so.6");

    REQUIRE_FALSE(driver);
    CHECK_THAT(driver.error().message, Contains("libc.so.6") && Contains("no cuGetProcAddress"));
}

TEST_CASE("without a driver the error says what to install") {
    const auto driver = open_driver("libnothing_of_this_name.so.1");

    REQUIRE_FALSE(driver);
    CHECK(driver.error().code == Errc::unsupported);
    CHECK_THAT(driver.error().message,
               Contains("libnothing_of_this_name.so.1") && Contains("install NVIDIA's driver"));
}
