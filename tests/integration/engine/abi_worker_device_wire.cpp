// SPDX-License-Identifier: Apache-2.0
//
// Sums of GPUs' tensors whose values are rounded on the way, on the stand-in for the CUDA driver.
#include "tests/integration/engine/abi_worker.hpp"
#include "tests/integration/engine/gpu_framework.hpp"
#include "tests/integration/engine/wire_checks.hpp"

#include <cstring>
#include <optional>

namespace hvd::test {
namespace {

class OnGpu final : public Place {
public:
    explicit OnGpu(const Framework& framework) : framework_(framework) {}
    OnGpu(const OnGpu&) = delete;
    OnGpu& operator=(const OnGpu&) = delete;
    ~OnGpu() override {
        for (const auto memory : memory_) {
            framework_.free(memory);
        }
    }

    void put(std::span<const std::byte> content, hvd_tensor& tensor) override {
        tensor.device_type = HVD_CUDA;
        tensor.device_index = framework_.index();
        tensor.stream = framework_.stream();
        if (content.empty()) {
            return;
        }
        std::vector<float> floats(content.size() / sizeof(float));
        std::memcpy(floats.data(), content.data(), content.size());
        memory_.push_back(framework_.make(floats.size()));
        framework_.write(memory_.back(), floats);
        tensor.data = reinterpret_cast<void*>(memory_.back());  // NOLINT(performance-no-int-to-ptr)
        written_.push_back(std::move(floats));                  // which the stream may read later
    }
    [[nodiscard]] std::vector<std::byte> read(const hvd_tensor& tensor,
                                              std::size_t bytes) override {
        std::vector<std::byte> content(bytes);
        if (bytes != 0) {
            const auto floats = framework_.read(tensor.data, bytes / sizeof(float));
            std::memcpy(content.data(), floats.data(), bytes);
        }
        return content;
    }

private:
    const Framework& framework_;
    std::vector<CUdeviceptr> memory_;
    std::vector<std::vector<float>> written_;
};

void device_rounding() {
    std::optional<hvd::World> world(
        hvd::init({.limit = {}, .process_sets = {}, .dynamic_process_sets = true}));
    const Framework framework(world->rank());
    {
        OnGpu place(framework);
        check_rounding(*world, place);
        world.reset();  // until then, what this rank ran after its join may be in flight
    }
    Framework::check();
}

}  // namespace

std::map<std::string, void (*)()> device_wire_cases() {
    return {{"device_rounding", device_rounding}};
}

}  // namespace hvd::test
