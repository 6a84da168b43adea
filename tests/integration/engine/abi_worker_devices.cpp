// SPDX-License-Identifier: Apache-2.0
//
// Tensors of a GPU through the C ABI, on the stand-in for the CUDA driver.
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"
#include "tests/integration/engine/gpu_framework.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

namespace hvd::test {
namespace {

void device_plan() {
    auto world = hvd::init();
    auto* const context = world.context();
    const Framework framework(world.rank());
    const auto memory = framework.make(1);
    const Rows value(memory, 1, framework);
    const auto request = request_of(HVD_ALLREDUCE, value, &value);
    hvd_plan* plan = nullptr;
    require(hvd_plan_create(context, &request, 1, &plan) == HVD_OK, "a plan");
    for (int step = 1; step <= 10; ++step) {
        const std::vector<float> mine{static_cast<float>(step)};
        framework.write(memory, mine);
        require(hvd_plan_start(context, plan) == HVD_OK, "starting");
        require(hvd_plan_wait_stream(context, plan, framework.stream(), -1) == HVD_OK, "waiting");
        require(
            framework.read(value.tensor.data, 1).front() == static_cast<float>(step * world.size()),
            "sum");
    }
    require(hvd_plan_free(context, plan) == HVD_OK, "freeing");
    framework.free(memory);
    Framework::check();
    world.barrier("end");
}

/// The world ends while tensors of GPUs wait for a rank.
void device_death() {
    auto world = hvd::init();
    auto* const context = world.context();
    const Framework framework(world.rank());
    const auto memory = framework.make(1);
    const Rows value(memory, 1, framework);
    const std::vector<float> mine{1};
    framework.write(memory, mine);
    world.barrier("all are here");
    if (world.size() > 1 && world.rank() == world.size() - 1) {
        ::_exit(0);
    }
    const auto request = request_of(HVD_ALLREDUCE, value, &value);
    hvd_ticket ticket = 0;
    const auto status = hvd_run_stream(context, &request, 1, &ticket, framework.stream(), -1);
    require((status == HVD_OK) == (world.size() == 1), "a sum without a rank");
    require(hvd_release(context, ticket) == HVD_OK, "releasing");
    // One that nobody has waited for when the world ends.
    require(hvd_submit(context, &request, 1, &ticket) == HVD_OK, "submitting");
    require(hvd_shutdown(context) == HVD_OK, "leaving");
    require(hvd_poll(context, ticket) != HVD_IN_PROGRESS, "ended with the world");
    require(hvd_release(context, ticket) == HVD_OK, "releasing");
    framework.free(memory);
    Framework::check();
}

/// A number from the environment.
unsigned number_of(const char* variable, unsigned fallback) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it meanwhile
    const char* const text = std::getenv(variable);
    return text == nullptr ? fallback : static_cast<unsigned>(std::atoi(text));
}

/// Sums in the world and in a process set, which each rank submits and awaits in
/// another order, each on any of its GPUs.
class Disorder {
public:
    Disorder(unsigned seed, int gpus)
        : world_(hvd::init({.limit = {}, .process_sets = {}, .dynamic_process_sets = true})),
          common_(seed),
          own_(seed + static_cast<unsigned>(world_.rank()) + 1) {
        frameworks_.push_back(std::make_unique<Framework>(world_.rank()));
        if (gpus == 2) {
            frameworks_.push_back(
                std::make_unique<Framework>(world_.rank(), second_gpu_of(world_.rank())));
        }
        add_set();
    }

    void round(std::size_t count) {
        const auto sums = choose(count);
        std::vector<float> values;
        for (const auto& sum : sums) {
            values.insert(values.end(), kFloats, sum.value + static_cast<float>(world_.rank()));
        }
        std::vector<CUdeviceptr> memory;
        for (const auto& framework : frameworks_) {
            memory.push_back(framework->make(values.size()));
            framework->write(memory.back(), values);
        }
        const auto chosen = choose_gpus(sums);

        const auto tickets = submit(sums, chosen, memory);
        if (std::ranges::all_of(sums, [](const Sum& sum) { return sum.set == 0; })) {
            world_.remove_process_set(set_);
            add_set();
        }
        for (const auto ticket : shuffled(tickets)) {
            for (const auto& framework : frameworks_) {  // any of them may read it
                require(
                    hvd_wait_stream(world_.context(), ticket, framework->stream(), -1) == HVD_OK,
                    "waiting");
            }
            require(hvd_release(world_.context(), ticket) == HVD_OK, "releasing");
        }

        std::vector<std::vector<float>> on_gpus;
        for (std::size_t gpu = 0; gpu < memory.size(); ++gpu) {
            // NOLINTNEXTLINE(performance-no-int-to-ptr)
            const auto* const from = reinterpret_cast<const void*>(memory[gpu]);
            on_gpus.push_back(frameworks_[gpu]->read(from, values.size()));
            frameworks_[gpu]->free(memory[gpu]);
        }
        for (std::size_t index = 0; index < sums.size(); ++index) {
            const auto& results = on_gpus[chosen[index]];
            const auto members = static_cast<float>(world_.size() - sums[index].set);
            const auto wanted = is_member(sums[index].set)
                                    ? members * sums[index].value + members * (members - 1) / 2
                                    : values[kFloats * index];
            require(
                results[kFloats * index] == wanted && results[kFloats * (index + 1) - 1] == wanted,
                "sum " + std::to_string(index) + " of " + std::to_string(sums.size()));
        }
        Framework::check();
    }

    void round_of_some() { round(1 + common_() % 40); }

    /// Whether all ranks have come to the end, by the first rank's clock.
    bool has_passed(std::chrono::steady_clock::time_point end) {
        std::vector<float> is_over{std::chrono::steady_clock::now() >= end ? 1.0F : 0.0F};
        world_.broadcast("is over", std::span(is_over), 0);
        return is_over.front() != 0;
    }

private:
    static constexpr std::size_t kFloats = 9;  // of a sum: places in a buffer are not aligned

    struct Sum {
        int set;  // 0: the world; 1: set_, which all ranks but the last are in
        float value;
    };

    void add_set() {
        std::vector<std::int32_t> members(static_cast<std::size_t>(world_.size()) - 1);
        std::iota(members.begin(), members.end(), 0);
        set_ = world_.add_process_set(members);
    }

    [[nodiscard]] bool is_member(int set) const { return world_.rank() < world_.size() - set; }

    std::vector<Sum> choose(std::size_t count) {
        std::vector<Sum> sums(count);
        for (auto& sum : sums) {
            sum = {.set = static_cast<int>(common_() % 2),
                   .value = static_cast<float>(common_() % 100)};
        }
        return sums;
    }

    /// Which GPU of this rank each sum is on: the other ranks choose others.
    std::vector<std::size_t> choose_gpus(const std::vector<Sum>& sums) {
        std::vector<std::size_t> gpus(sums.size());
        for (auto& gpu : gpus) {
            gpu = own_() % frameworks_.size();
        }
        return gpus;
    }

    template <class T>
    std::vector<T> shuffled(std::vector<T> values) {
        std::ranges::shuffle(values, own_);
        return values;
    }

    /// Some calls submit one sum, others many.
    std::vector<hvd_ticket> submit(const std::vector<Sum>& sums,
                                   const std::vector<std::size_t>& gpus,
                                   const std::vector<CUdeviceptr>& memory) {
        std::vector<std::size_t> order(sums.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::erase_if(order, [&](std::size_t index) { return !is_member(sums[index].set); });
        std::vector<std::string> names;
        std::vector<std::unique_ptr<Rows>> rows;
        std::vector<hvd_request> requests;
        names.reserve(order.size());
        for (const auto index : shuffled(order)) {
            names.push_back("sum " + std::to_string(index));
            rows.push_back(
                std::make_unique<Rows>(memory[gpus[index]] + index * kFloats * sizeof(float),
                                       kFloats, *frameworks_[gpus[index]]));
            requests.push_back(request_of(HVD_ALLREDUCE, *rows.back(), rows.back().get()));
            requests.back().name = names.back().c_str();
            requests.back().process_set = sums[index].set == 0 ? 0 : set_.id;
        }
        std::vector<hvd_ticket> tickets(requests.size());
        for (std::size_t begin = 0; begin < requests.size();) {
            const auto count =
                std::min<std::size_t>(1 + own_() % requests.size(), requests.size() - begin);
            require(
                hvd_submit(world_.context(), &requests[begin], count, &tickets[begin]) == HVD_OK,
                "submitting");
            begin += count;
        }
        return tickets;
    }

    World world_;
    std::vector<std::unique_ptr<Framework>> frameworks_;  // one for each GPU of this rank
    std::minstd_rand common_;                             // the same numbers on every rank
    std::minstd_rand own_;
    ProcessSet set_{};
};

#if defined(HVD_SANITIZE_ADDRESS) || defined(HVD_SANITIZE_THREAD)
constexpr std::size_t kManySums = 1'000;  // the others take minutes there
#else
constexpr std::size_t kManySums = 10'000;
#endif

/// As many sums at once, then a few at a time for HVD_TEST_SECONDS, in orders by HVD_TEST_SEED.
void run_disorder(int gpus, std::size_t first, unsigned seconds) {
    Disorder disorder(number_of("HVD_TEST_SEED", 1), gpus);
    disorder.round(first);
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::seconds(number_of("HVD_TEST_SECONDS", seconds));
    while (!disorder.has_passed(end)) {
        disorder.round_of_some();
    }
}

void device_orders() {
    run_disorder(1, kManySums, 5);
}

void device_orders_on_two() {
    run_disorder(2, 100, 2);
}

/// A device that fails is this rank's error, in words.
void device_failures() {
    auto world = hvd::init();
    auto* const context = world.context();
    const Framework framework(world.rank());
    const auto memory = framework.make(1);
    const Rows value(memory, 1, framework);
    const std::vector<float> mine{1};
    framework.write(memory, mine);
    auto request = request_of(HVD_ALLREDUCE, value, &value);
    hvd_ticket ticket = 0;

    Framework::control().fail("cuMemHostAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY);
    require(hvd_submit(context, &request, 1, &ticket) == HVD_INTERNAL, "no pinned memory");
    require(std::string(hvd_last_error()).find("out of memory") != std::string::npos, "why");
    Framework::control().fail("cuMemcpyDtoHAsync", 0, CUDA_ERROR_LAUNCH_FAILED);
    require(hvd_run_stream(context, &request, 1, &ticket, nullptr, -1) == HVD_INTERNAL, "no copy");
    require(hvd_release(context, ticket) == HVD_OK, "releasing");
    Framework::control().fail("cuMemcpyHtoDAsync", 0, CUDA_ERROR_LAUNCH_FAILED);
    require(hvd_run_stream(context, &request, 1, &ticket, nullptr, -1) == HVD_INTERNAL, "no way");
    require(hvd_release(context, ticket) == HVD_OK, "releasing");
    require(run(context, framework, request).front() == static_cast<float>(world.size()), "a sum");

    Rows elsewhere(memory, 1, framework);
    elsewhere.tensor.device_index = 1;
    request.out = &elsewhere.tensor;
    require(hvd_submit(context, &request, 1, &ticket) == HVD_INVALID_ARGUMENT, "two devices");
    framework.free(memory);
    world.barrier("end");
}

}  // namespace

std::map<std::string, void (*)()> device_cases() {
    return {{"device_plan", device_plan},
            {"device_death", device_death},
            {"device_failures", device_failures},
            {"device_orders", device_orders},
            {"device_orders_on_two", device_orders_on_two}};
}

}  // namespace hvd::test
