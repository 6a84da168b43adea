// SPDX-License-Identifier: Apache-2.0
//
// In how many collectives the gradients of a training step travel.
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace hvd::test {
namespace {

constexpr int kSteps = 3;

struct Stage {
    std::size_t width;
    int blocks;
};
constexpr std::array kStages{Stage{64, 3}, Stage{128, 4}, Stage{256, 6}, Stage{512, 3}};

/// Elements of each parameter of ResNet-50, in the order of the layers.
std::vector<std::size_t> resnet_50() {
    std::vector<std::size_t> sizes;
    const auto add_convolution = [&](std::size_t elements, std::size_t channels) {
        sizes.insert(sizes.end(), {elements, channels, channels});  // and its normalization
    };
    add_convolution(std::size_t{3} * 7 * 7 * 64, 64);
    std::size_t in = 64;
    for (const auto& [width, blocks] : kStages) {
        for (int block = 0; block < blocks; ++block) {
            add_convolution(in * width, width);
            add_convolution(width * width * 9, width);
            add_convolution(width * width * 4, width * 4);
            if (block == 0) {
                add_convolution(in * width * 4, width * 4);
            }
            in = width * 4;
        }
    }
    sizes.insert(sizes.end(), {in * 1000, 1000});
    return sizes;
}

hvd_counters counters_of(const World& world) {
    hvd_counters counters{};
    counters.struct_size = sizeof counters;
    require(hvd_counters_of(world.context(), &counters) == HVD_OK, "hvd_counters_of");
    return counters;
}

/// The gradients of one rank, the last layer's first, as a backward pass makes them.
class Gradients {
public:
    Gradients() {
        for (const auto size : resnet_50()) {
            data_.emplace_back(size);
        }
        std::ranges::reverse(data_);
        require(data_.size() == 161, "the parameters of ResNet-50");
    }

    /// Sums them up by one call each, or by one for all.
    void sum(World& world, bool is_one_call) {
        std::vector<Request> requests;
        for (std::size_t index = 0; index < data_.size(); ++index) {
            std::ranges::fill(data_[index], 1.0F);
            requests.push_back(Request::allreduce("gradient." + std::to_string(index),
                                                  std::span(data_[index]), {.op = ReduceOp::sum}));
        }
        std::vector<Pending> pending;
        if (is_one_call) {
            pending = world.submit(requests);
        } else {
            for (const auto& request : requests) {
                pending.push_back(world.submit(request));
            }
        }
        for (const auto& each : pending) {
            require(each.wait(std::chrono::seconds(20)), "the end of a sum");
        }
        for (const auto& gradient : data_) {
            require(gradient.back() == static_cast<float>(world.size()), "the sum");
        }
    }

    [[nodiscard]] std::size_t bytes() const {
        std::size_t bytes = 0;
        for (const auto& gradient : data_) {
            bytes += gradient.size() * sizeof(float);
        }
        return bytes;
    }

private:
    std::vector<std::vector<float>> data_;
};

/// The least number of collectives of a step, of several.
std::uint64_t collectives_of_a_step(World& world, Gradients& gradients, bool is_one_call) {
    auto least = std::numeric_limits<std::uint64_t>::max();
    for (int step = 0; step < kSteps; ++step) {
        world.barrier("step");
        const auto before = counters_of(world);
        gradients.sum(world, is_one_call);
        const auto after = counters_of(world);
        require(after.collective_bytes - before.collective_bytes == gradients.bytes(),
                "each gradient travels once");
        least = std::min(least, after.collectives - before.collectives);
    }
    return least;
}

void gradients_fuse() {
    auto world = hvd::init();
    Gradients gradients;
    gradients.sum(world, true);  // their names are known from here on

    const auto together = collectives_of_a_step(world, gradients, true);
    const auto one_by_one = collectives_of_a_step(world, gradients, false);

    require(one_by_one * 10 <= together * 11, std::to_string(one_by_one) +
                                                  " collectives for a call each, " +
                                                  std::to_string(together) + " for one call");
}

}  // namespace

std::map<std::string, void (*)()> fusion_cases() {
    return {{"gradients_fuse", gradients_fuse}};
}

}  // namespace hvd::test
