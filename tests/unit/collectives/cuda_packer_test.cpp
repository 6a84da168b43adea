// SPDX-License-Identifier: Apache-2.0
//
// How the packer gets its kernels into a GPU, on the stand-in for the CUDA driver.
#include "collectives/cuda/packer.hpp"
#include "collectives/cuda/shared_library.hpp"
#include "tests/support/gpu/control.hpp"

#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

using hvd::coll::cuda::Device;
using hvd::coll::cuda::Packer;
using hvd::test::gpu::ControlFunction;

TEST_CASE("a cubin that the driver refuses is replaced by PTX") {
    const std::string library = HVD_FAKE_CUDA;
    // A packer, with its driver and device, lasts as long as the process.
    static const auto& driver =
        *new hvd::coll::cuda::Driver(hvd::coll::cuda::open_driver(library).value());
    auto* const control = reinterpret_cast<ControlFunction>(hvd::coll::cuda::find_symbol(
        hvd::coll::cuda::open_library(library).value(), hvd::test::gpu::kControlSymbol))();
    REQUIRE(driver.cuInit(0) == CUDA_SUCCESS);
    static const auto& device = *new Device(driver, 0);
    static auto& packers = *new std::vector<std::unique_ptr<Packer>>;
    const Device::Current current(device);
    const int before = control->calls("cuModuleLoadDataEx");
    const bool is_refused = GENERATE(false, true);
    if (is_refused) {
        control->fail("cuModuleLoadDataEx", 0, CUDA_ERROR_NO_BINARY_FOR_GPU);
    }

    packers.push_back(std::make_unique<Packer>(driver, device, nullptr));

    CHECK(control->calls("cuModuleLoadDataEx") - before == (is_refused ? 2 : 1));
}
