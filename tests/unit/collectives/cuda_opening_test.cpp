// SPDX-License-Identifier: Apache-2.0
//
// The opening of a GPU that fails on its way, on the stand-in for the CUDA driver.
#include "collectives/cuda/gpus.hpp"
#include "collectives/cuda/host_staging.hpp"
#include "collectives/cuda/shared_library.hpp"
#include "tests/support/gpu/control.hpp"

#include <catch2/catch.hpp>

#include <string>

using hvd::coll::cuda::Gpus;
using hvd::coll::cuda::HostStaging;
using hvd::test::gpu::Control;
using hvd::test::gpu::ControlFunction;

namespace {

const std::string kLibrary = HVD_FAKE_CUDA;
constexpr int kDevice = 3;  // which no other test of this program uses

Control& control() {
    static Control* const found = reinterpret_cast<ControlFunction>(hvd::coll::cuda::find_symbol(
        hvd::coll::cuda::open_library(kLibrary).value(), hvd::test::gpu::kControlSymbol))();
    return *found;
}

/// Lets each call of `function` that `open` makes fail in turn, in attempts that are to leave
/// nothing. Returns how many failed before one attempt had no such call.
template <class Open>
int fail_each_call(const std::string& function, const Open& open) {
    constexpr int kMost = 50;
    for (int number = 0; number < kMost; ++number) {
        CAPTURE(function, number);
        const auto before = control().leaks();
        const int calls = control().calls(function);
        control().fail(function, number, CUDA_ERROR_OUT_OF_MEMORY);
        bool has_failed = false;
        try {
            open();
        } catch (const hvd::Exception& exception) {
            has_failed = true;
            CHECK(exception.error().message.find(function) != std::string::npos);
        }
        control().forgive();
        if (control().calls(function) - calls <= number) {
            return number;
        }
        CHECK(has_failed);
        CHECK(control().leaks() == before);
    }
    return kMost;
}

}  // namespace

#ifdef HVD_HAVE_KERNELS
TEST_CASE("a GPU that cannot be opened leaves nothing behind, whichever call fails") {
    for (const std::string function :
         {"cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuEventCreate",
          "cuDeviceGetUuid", "cuCtxGetStreamPriorityRange", "cuStreamCreateWithPriority",
          "cuDeviceGetAttribute", "cuModuleGetFunction", "cuMemHostAlloc", "cuMemAlloc"}) {
        Gpus gpus(kLibrary);
        CHECK(fail_each_call(function, [&] { gpus.attach(kDevice); }) > 0);
        CHECK(gpus.is_attached(kDevice));
    }
}
#endif

TEST_CASE("copies through the host that cannot begin leave nothing behind, whichever call fails") {
    for (const std::string function :
         {"cuDevicePrimaryCtxRetain", "cuEventCreate", "cuCtxGetStreamPriorityRange",
          "cuStreamCreateWithPriority"}) {
        HostStaging staging(kLibrary);
        CHECK(fail_each_call(function, [&] { staging.follow({.index = kDevice}); }) > 0);
    }
}
