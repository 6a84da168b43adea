// SPDX-License-Identifier: Apache-2.0
//
// Sums one array over all ranks and times it:
//   horovodrun -np 4 ./allreduce [--device auto|cpu|cuda] [FLOATS]
// auto: on the GPU of the local rank, where the machine has one for each.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "gpu_memory.hpp"
#include <hvd/hvd.hpp>

namespace {

constexpr int kRounds = 20;

struct Options {
    std::string_view device = "auto";
    std::size_t floats = 1 << 20;
};

/// Nothing where the arguments are wrong.
std::optional<Options> parse(std::span<char*> arguments) {
    Options options;
    if (arguments.size() >= 2 && std::string_view(arguments[0]) == "--device") {
        options.device = arguments[1];
        arguments = arguments.subspan(2);
    }
    if (!arguments.empty()) {
        const std::string_view text = arguments[0];
        const auto [last, error] =
            std::from_chars(text.data(), text.data() + text.size(), options.floats);
        if (error != std::errc() || last != text.data() + text.size() || options.floats == 0) {
            return std::nullopt;
        }
        arguments = arguments.subspan(1);
    }
    const bool is_known =
        options.device == "auto" || options.device == "cpu" || options.device == "cuda";
    return is_known && arguments.empty() ? std::optional(options) : std::nullopt;
}

/// Whether the ranks use GPUs.
bool choose_gpus(std::string_view device, const CudaDriver& driver, const hvd::World& world) {
    if (device == "cpu") {
        return false;
    }
    const bool has_enough = driver.gpus() >= world.local_size();
    if (device == "cuda" && !has_enough) {
        throw std::runtime_error("--device cuda: " + std::to_string(driver.gpus()) +
                                 " GPUs for the " + std::to_string(world.local_size()) +
                                 " ranks of this machine; use --device auto or cpu");
    }
    return has_enough;
}

int run(const Options& options) {
    auto world = hvd::init();
    const auto mine = static_cast<float>(world.rank());
    const auto expected = static_cast<float>(world.size() * (world.size() - 1) / 2);
    std::vector<float> values(options.floats, mine);

    const CudaDriver driver;
    std::optional<GpuMemory> gpu;
    if (choose_gpus(options.device, driver, world)) {
        gpu.emplace(driver, world.local_rank(), options.floats);
    }
    auto request = hvd::Request::allreduce("data", gpu ? gpu->data() : std::span(values),
                                           hvd::Reduction{.op = hvd::ReduceOp::sum});
    if (gpu) {
        request = std::move(request).on(hvd::Gpu{world.local_rank(), gpu->stream()});
    }

    // A plan repeats the same operation over the same memory: names and sizes are read once.
    auto plan = world.plan(request);
    auto fastest = std::chrono::steady_clock::duration::max();
    for (int round = 0; round < kRounds; ++round) {
        std::ranges::fill(values, mine);
        if (gpu) {
            gpu->write(values);
        }
        const auto start = std::chrono::steady_clock::now();
        plan.run();
        fastest = std::min(fastest, std::chrono::steady_clock::now() - start);
        if (gpu) {
            gpu->read(values);
        }
    }

    const auto wrong = std::ranges::count_if(values, [=](float sum) { return sum != expected; });
    if (world.rank() == 0) {
        const std::chrono::duration<double, std::milli> time = fastest;
        std::printf("sum of ranks 0 to %d on %s: %g\n", world.size() - 1, gpu ? "GPUs" : "CPUs",
                    double{values.front()});
        std::printf("%zu floats in %.3f ms, fastest of %d\n", options.floats, time.count(),
                    kRounds);
    }
    return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const auto options = parse(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
    if (!options) {
        std::fprintf(stderr,
                     "usage: allreduce [--device auto|cpu|cuda] [FLOATS], a number above 0\n");
        return 2;
    }
    try {
        return run(*options);
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "allreduce: %s\n", failure.what());
        return 1;
    }
}
