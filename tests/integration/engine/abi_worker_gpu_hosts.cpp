// SPDX-License-Identifier: Apache-2.0
//
// Sums on GPUs of several hosts between which NCCL cannot connect, through the C ABI and on the
// stand-ins for the CUDA driver and NCCL.
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"
#include "tests/integration/engine/gpu_framework.hpp"
#include "tests/integration/engine/gpu_nccl.hpp"
#include "tests/integration/engine/gpu_values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace hvd::test {
namespace {

constexpr std::size_t kFloats = 3'000'001;  // several chunks, and an odd one

// For a second after the death, the time before it, and a machine that does other things too.
#if defined(HVD_SANITIZE_ADDRESS) || defined(HVD_SANITIZE_THREAD)
constexpr std::chrono::seconds kDeathLimit{8};
#else
constexpr std::chrono::seconds kDeathLimit{2};
#endif

/// Floats on the GPU that are summed in place.
class Many {
public:
    Many(const Framework& framework, float value)
        : framework_(framework), mine_(kFloats, value), memory_(framework.make(kFloats)) {
        mine_.back() = 2 * value;
        framework.write(memory_, mine_);
    }
    Many(const Many&) = delete;
    Many& operator=(const Many&) = delete;
    ~Many() { framework_.free(memory_); }

    [[nodiscard]] hvd_request sum() const { return request_of(HVD_ALLREDUCE, rows_, &rows_); }

private:
    const Framework& framework_;
    std::vector<float> mine_;
    CUdeviceptr memory_;
    Rows rows_{memory_, static_cast<std::int64_t>(kFloats), framework_};
};

void require_sum(hvd_context* context, const Framework& framework, int ranks) {
    const Many ones(framework, 1);
    const auto sums = run(context, framework, ones.sum());
    require(sums.front() == static_cast<float>(ranks) &&
                sums[kFloats / 2] == static_cast<float>(ranks) &&
                sums.back() == 2 * static_cast<float>(ranks),
            "a sum in chunks");
}

/// The last rank dies in the middle of a sum that its GPU does not get to: the others have its name
/// within a second.
void hosts_death() {
    auto world = hvd::init();
    auto* const context = world.context();
    const Framework framework(world.rank());
    require_sum(context, framework, world.size());
    world.barrier("all have it");
    const Many ones(framework, 1);
    const auto sum = ones.sum();
    hvd_ticket ticket = 0;
    if (world.rank() == world.size() - 1) {
        Framework::control().pause();
        require(hvd_submit(context, &sum, 1, &ticket) == HVD_OK, "submitting");
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        ::_exit(0);
    }
    const auto began = std::chrono::steady_clock::now();
    require_failure(context, sum, HVD_UNAVAILABLE, {"rank " + std::to_string(world.size() - 1)});
    require(std::chrono::steady_clock::now() - began < kDeathLimit, "at once");
    require_failure(context, sum, HVD_UNAVAILABLE, {"rank " + std::to_string(world.size() - 1)});
    require(hvd_shutdown(context) == HVD_OK, "leaving");
    require_nothing_of_nccl();
    Framework::check();
}

/// The sum of four such halves is more than a half can hold.
void hosts_halves() {
    constexpr std::uint16_t kHalf = 0x7753;  // 30,000
    const auto two = std::bit_cast<float>(std::array{kHalf, kHalf});
    const std::vector<float> mine{two, two};  // which the stream reads later
    auto world = hvd::init();
    const Framework framework(world.rank());
    const auto memory = framework.make(2);
    framework.write(memory, mine);
    Rows halves(memory, 2, framework);
    halves.tensor.dtype = HVD_FLOAT16;
    auto average = request_of(HVD_ALLREDUCE, halves, &halves);
    average.reduce_op = HVD_AVERAGE;
    require(std::bit_cast<std::uint32_t>(run(world.context(), framework, average).front()) ==
                std::bit_cast<std::uint32_t>(two),
            "the average of equal halves");
    framework.free(memory);
    Framework::check();
}

/// A world leaves nothing of the driver that the next one does not use again.
void hosts_worlds() {
    std::optional<Framework> framework;
    std::vector<std::string> left;
    for (int round = 0; round < 3; ++round) {
        auto world = hvd::init();
        if (!framework) {
            framework.emplace(world.rank());
        }
        require_sum(world.context(), *framework, world.size());
        require_sum(world.context(), *framework, world.size());
        world.barrier("all have it");
        require(hvd_shutdown(world.context()) == HVD_OK, "leaving");
        Framework::check();
        require_nothing_of_nccl();
        auto now = Framework::control().leaks();
        // A GPU has as many as were needed at a time.
        std::erase_if(now, [](const std::string& each) { return each.ends_with(" events"); });
        for (const auto& each : now) {
            require(round == 0 || std::ranges::find(left, each) != left.end(),
                    each + " after another world");
        }
        left = now;
    }
}

}  // namespace

std::map<std::string, void (*)()> gpu_host_cases() {
    return {{"hosts_death", hosts_death},
            {"hosts_halves", hosts_halves},
            {"hosts_worlds", hosts_worlds}};
}

}  // namespace hvd::test
