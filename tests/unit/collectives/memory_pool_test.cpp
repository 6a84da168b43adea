// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU that is kept between collectives, on the stand-in for the CUDA driver.
#include "collectives/cuda/memory_pool.hpp"

#include "collectives/cuda/shared_library.hpp"
#include "tests/support/gpu/control.hpp"

#include <catch2/catch.hpp>

#include <cstddef>
#include <string>

using hvd::coll::cuda::MemoryPool;
using hvd::test::gpu::Control;
using hvd::test::gpu::ControlFunction;

namespace {

const std::string kLibrary = HVD_FAKE_CUDA;
constexpr std::size_t kMiB = std::size_t{1} << 20U;

Control& control() {
    static Control* const found = reinterpret_cast<ControlFunction>(hvd::coll::cuda::find_symbol(
        hvd::coll::cuda::open_library(kLibrary).value(), hvd::test::gpu::kControlSymbol))();
    return *found;
}

struct Pool {
    hvd::coll::cuda::Driver cu = hvd::coll::cuda::open_driver(kLibrary).value();
    hvd::coll::cuda::Device device{cu, 0};
    hvd::coll::cuda::Device::Current current{device};
    CUstream stream = device.make_stream();
    MemoryPool memory{cu, device, stream};

    /// The device's memory in use, once its stream has ended.
    [[nodiscard]] std::size_t in_use() const {
        REQUIRE(cu.cuStreamSynchronize(stream) == CUDA_SUCCESS);
        return control().device_bytes();
    }
};

}  // namespace

TEST_CASE("memory of a GPU is used again, and given back when it is trimmed") {
    Pool pool;
    const auto before = pool.in_use();
    const int made = control().calls("cuMemAllocAsync");
    for (int step = 0; step < 3; ++step) {
        const auto first = pool.memory.allocate(kMiB);
        const auto second = pool.memory.allocate(3 * kMiB);
    }
    CHECK(control().calls("cuMemAllocAsync") == made + 2);
    CHECK(pool.in_use() == before + 4 * kMiB);

    pool.memory.trim();
    CHECK(pool.in_use() == before);
}

TEST_CASE("no more than the limit is kept, also where more is kept already") {
    Pool pool;
    const auto before = pool.in_use();
    pool.memory.set_limit(2 * kMiB);
    {
        const auto small = pool.memory.allocate(kMiB);
        const auto large = pool.memory.allocate(4 * kMiB);
    }
    CHECK(pool.in_use() == before + kMiB);

    pool.memory.set_limit(0);
    CHECK(pool.in_use() == before);
    { const auto none = pool.memory.allocate(kMiB); }
    CHECK(pool.in_use() == before);
    CHECK(control().take_violations() == std::vector<std::string>{});
}
