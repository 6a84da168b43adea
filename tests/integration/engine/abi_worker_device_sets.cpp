// SPDX-License-Identifier: Apache-2.0
//
// Every operation with tensors of a GPU, in the world and in process sets, through the C ABI and on
// the stand-in for the CUDA driver.
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"
#include "tests/integration/engine/gpu_framework.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace hvd::test {
namespace {

using Ranks = std::vector<std::int32_t>;

/// Every operation in one process set, of which this rank is a member. A member's rows are its
/// rank + 1.
class Operations {
public:
    Operations(const World& world, const Framework& framework, ProcessSet set)
        : context_(world.context()),
          framework_(framework),
          set_(set),
          ranks_(world.ranks_of(set)),
          mine_(ranks_.size(), static_cast<float>(world.rank() + 1)) {}
    Operations(const Operations&) = delete;
    Operations& operator=(const Operations&) = delete;
    ~Operations() {
        framework_.free(a_);
        framework_.free(b_);
    }

    void check() const {
        const auto rows = static_cast<std::int64_t>(ranks_.size());
        const Rows in(a_, rows, framework_);
        const Rows out(b_, rows, framework_);
        const Rows one(b_, 1, framework_);
        const std::vector<float> sums(ranks_.size(), sum_);
        std::vector<float> all;
        for (const auto rank : ranks_) {
            all.push_back(static_cast<float>(rank + 1));
        }
        framework_.write(a_, mine_);
        require(result(HVD_ALLREDUCE, in, &out) == sums, "allreduce");
        require(framework_.read(in.tensor.data, mine_.size()) == mine_, "the input is left alone");
        require(result(HVD_ALLREDUCE, in, nullptr) == sums, "allreduce into the library's memory");
        require(result(HVD_REDUCESCATTER, in, &one) == std::vector{sum_}, "reducescatter");
        const auto gathered = result(HVD_ALLGATHER, in, nullptr);
        require(gathered.size() == all.size() * all.size() && gathered.front() == all.front() &&
                    gathered.back() == all.back(),
                "allgather");
        require(result(HVD_ALLTOALL, in, nullptr) == all, "alltoall");
        require(result(HVD_BROADCAST, in, &in) == std::vector<float>(all.size(), all.front()),
                "broadcast");
    }

private:
    [[nodiscard]] std::vector<float> result(hvd_op op, const Rows& in, const Rows* out) const {
        auto request = request_of(op, in, out);
        request.process_set = set_.id;
        request.root = ranks_.front();
        return run(context_, framework_, request);
    }

    hvd_context* context_;
    const Framework& framework_;
    ProcessSet set_;
    Ranks ranks_;
    std::vector<float> mine_;
    float sum_ = static_cast<float>(
        std::accumulate(ranks_.begin(), ranks_.end(), static_cast<int>(ranks_.size())));
    CUdeviceptr a_ = framework_.make(ranks_.size());
    CUdeviceptr b_ = framework_.make(ranks_.size());
};

void device_operations() {
    auto world = hvd::init();
    require(hvd_feature_value(HVD_FEATURE_CUDA) == 1, "GPUs");
    const Framework framework(world.rank());
    {
        const Operations operations(world, framework, {});
        for (int step = 0; step < 3; ++step) {
            operations.check();
        }
    }
    Framework::check();
    world.barrier("end");
}

/// A rank has two GPUs: operations on both in turn, under one name, in the world and in a set; then
/// Adasum on the second one.
void device_two_each() {
    auto world = hvd::init({.limit = {}, .process_sets = {}, .dynamic_process_sets = true});
    Ranks even;
    for (int rank = 0; rank < world.size(); rank += 2) {
        even.push_back(rank);
    }
    auto set = ProcessSet{};
    if (even.size() != static_cast<std::size_t>(world.size())) {
        set = world.add_process_set(even);
    }
    const Framework first(world.rank());
    const Framework second(world.rank(), second_gpu_of(world.rank()));
    for (int step = 0; step < 3; ++step) {
        for (const auto* const framework : {&first, &second}) {
            Operations(world, *framework, {}).check();
            if (world.rank() % 2 == 0) {
                Operations(world, *framework, set).check();
            }
        }
    }
    const auto memory = second.make(1);
    const std::vector<float> mine{3};
    second.write(memory, mine);
    const Rows value(memory, 1, second);
    auto adasum = request_of(HVD_ALLREDUCE, value, &value);
    adasum.reduce_op = HVD_ADASUM;
    require(run(world.context(), second, adasum).front() == 3, "Adasum of equal vectors");
    second.free(memory);
    Framework::check();
    world.barrier("end");
}

/// The number of a GPU is its rank's own affair: for one name some ranks use their first one and
/// some their second one, and then the other way round.
void device_different_numbers() {
    auto world = hvd::init();
    const Framework first(world.rank());
    const Framework second(world.rank(), second_gpu_of(world.rank()));
    for (int step = 0; step < 4; ++step) {
        const bool is_first = (world.rank() + step / 2) % 2 == 0;
        Operations(world, is_first ? first : second, {}).check();
    }
    Framework::check();
    world.barrier("end");
}

/// Sets that hvd_init makes and one that is made later. They overlap, and so do their communicators
/// on a GPU.
void device_sets() {
    int size = 0;
    {
        auto world = hvd::init();
        size = world.size();
    }
    InitOptions options;
    options.dynamic_process_sets = true;
    Ranks even;
    for (int rank = 0; rank < size; rank += 2) {
        even.push_back(rank);
    }
    if (size > 1) {
        options.process_sets = {{size - 1}};
    }
    if (size > 2) {
        options.process_sets.push_back({size - 2, size - 1});
        options.process_sets.push_back(even);
    }
    auto world = hvd::init(options);
    if (size > 3) {
        (void)world.add_process_set(Ranks{0, 1, size - 1});
    }
    const Framework framework(world.rank());
    auto sets = world.process_sets();
    std::erase_if(sets, [&](ProcessSet set) {
        const auto members = world.ranks_of(set);
        return std::ranges::find(members, world.rank()) == members.end();
    });
    for (int step = 0; step < 2; ++step) {
        for (const auto set : sets) {
            Operations(world, framework, set).check();
        }
    }
    Framework::check();
    world.barrier("end");
}

/// Whether this process has a file mapped whose name has `part`.
bool has_mapped(const std::string& part) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find(part) != std::string::npos) {
            return true;
        }
    }
    return false;
}

/// CUDA and NCCL come into the process with the first tensor of a GPU.
void device_not_loaded() {
    auto world = hvd::init();
    std::vector<float> data{1};
    world.allreduce("of the host", std::span(data), {.op = ReduceOp::sum});
    require(!has_mapped("libcuda.so") && !has_mapped("libnccl.so"), "nothing is loaded");
    const Framework framework(world.rank());
    Operations(world, framework, {}).check();
    require(has_mapped("libcuda.so"), "the driver");
#ifdef HVD_HAVE_NCCL
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it meanwhile
    const bool has_nccl = std::string(std::getenv("HOROVOD_GPU_OPERATIONS")) == "nccl";
#else
    const bool has_nccl = false;
#endif
    require(has_mapped("libnccl.so") == has_nccl, "NCCL");
    world.barrier("end");
}

}  // namespace

std::map<std::string, void (*)()> device_set_cases() {
    return {{"device_operations", device_operations},
            {"device_sets", device_sets},
            {"device_two_each", device_two_each},
            {"device_different_numbers", device_different_numbers},
            {"device_not_loaded", device_not_loaded}};
}

}  // namespace hvd::test
