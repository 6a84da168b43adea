// SPDX-License-Identifier: Apache-2.0
//
// Every call of the driver and of NCCL that operations make fails once, through the C ABI and on
// the stand-ins.
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"
#include "tests/integration/engine/gpu_framework.hpp"
#ifdef HVD_HAVE_NCCL
#include "collectives/nccl/library.hpp"
#include "tests/support/gpu/nccl_control.hpp"
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hvd::test {
namespace {

constexpr std::int64_t kLimitMs = 20'000;  // of a wait that must end by itself

/// A function of the driver or of NCCL, whose calls can fail.
struct Function {
    std::string name;
    std::function<void(int number)> fail;  // its call `number` from now on; 0 is the next
    std::function<int()> calls;
};

bool uses_nccl() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it meanwhile
    return std::string(std::getenv("HOROVOD_GPU_OPERATIONS")) == "nccl";
}

#ifdef HVD_HAVE_NCCL
gpu::NcclControl& nccl() {
    static gpu::NcclControl* const found =
        reinterpret_cast<gpu::NcclControlFunction>(coll::cuda::find_symbol(
            coll::cuda::open_library("libnccl.so.2").value(), gpu::kNcclControlSymbol))();
    return *found;
}
#endif

void forgive() {
    Framework::control().forgive();
#ifdef HVD_HAVE_NCCL
    if (uses_nccl()) {
        nccl().forgive();
    }
#endif
}

/// HVD_TEST_FUNCTIONS, what the names of the functions begin with: "cu", or one in full.
std::string chosen_prefix() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it meanwhile
    const char* const prefix = std::getenv("HVD_TEST_FUNCTIONS");
    return prefix == nullptr ? "" : prefix;
}

Function driver_function(const std::string& name) {
    return {
        .name = name,
        .fail = [name](int number) { Framework::control().fail(name, number, CUDA_ERROR_UNKNOWN); },
        .calls = [name] { return Framework::control().calls(name); }};
}

/// Those of opening a GPU, in their order. Each failure leaves it unopened.
constexpr std::array kOpening{"cuInit",
                              "cuDeviceGet",
                              "cuDeviceGetUuid",
                              "cuDevicePrimaryCtxRetain",
                              "cuCtxPushCurrent",
                              "cuCtxGetStreamPriorityRange",
                              "cuEventCreate",
                              "cuStreamCreateWithPriority",
                              "cuMemHostAlloc",
                              "cuMemAlloc",
                              "cuModuleGetFunction",
                              "cuDeviceGetAttribute"};

/// Those of running operations.
std::vector<Function> running_functions() {
    std::vector<Function> functions;
#define HVD_ADD(function, since) functions.push_back(driver_function(#function));
    HVD_CUDA_FUNCTIONS(HVD_ADD)
#undef HVD_ADD
#ifdef HVD_HAVE_NCCL
#define HVD_ADD(function)                                                                     \
    functions.push_back({#function,                                                           \
                         [](int number) { nccl().fail(#function, number, ncclSystemError); }, \
                         [] { return nccl().calls(#function); }});
    if (uses_nccl()) {
        HVD_NCCL_FUNCTIONS(HVD_ADD)
    }
#undef HVD_ADD
#endif
    std::erase_if(functions, [prefix = chosen_prefix()](const Function& function) {
        // The end of a world is its own.
        return !function.name.starts_with(prefix) || function.name == "ncclCommFinalize" ||
               function.name == "ncclCommDestroy" || function.name == "ncclCommAbort";
    });
    return functions;
}

/// Failures there harm no operation: they come while memory is given back, or there is another way.
bool may_fail_unseen(const std::string& function) {
    constexpr std::array kUnseen{"cuCtxPopCurrent",   "cuThreadExchangeStreamCaptureMode",
                                 "cuMemFree",         "cuMemFreeAsync",
                                 "cuMemFreeHost",     "cuStreamSynchronize",
                                 "cuModuleLoadDataEx"};
    return std::ranges::find(kUnseen, function) != kUnseen.end();
}

/// How many of its calls fail in turn: of those that are made at every step a few are enough.
int most_calls(const std::string& function) {
    constexpr std::array kFrequent{"cuEventQuery", "cuCtxPushCurrent", "cuCtxPopCurrent",
                                   "cuThreadExchangeStreamCaptureMode", "ncclCommGetAsyncError"};
    return std::ranges::find(kFrequent, function) != kFrequent.end() ? 6 : 100;
}

/// Operations that need everything that there is: results in the library's memory, several tensors
/// at once, values that change, uneven parts, messages.
class Workload {
public:
    Workload(const Framework& framework, int rank, int size)
        : framework_(framework), memory_(framework.make(kFloats)) {
        const auto rows = static_cast<std::int64_t>(size);
        framework.write(memory_, values_);
        add("sum", HVD_ALLREDUCE, rows, true);
        if (!uses_nccl()) {  // one way for all of them
            add("of the library", HVD_ALLREDUCE, rows, false);
            add("shares", HVD_REDUCESCATTER, rows, false);
            return;
        }
        add("average 1", HVD_ALLREDUCE, rows, true).reduce_op = HVD_AVERAGE;
        add("average 2", HVD_ALLREDUCE, 3, true).reduce_op = HVD_AVERAGE;
        add("of the library", HVD_ALLREDUCE, rows, false);
        add("rows", HVD_ALLGATHER, rows, false);
        add("uneven rows", HVD_ALLGATHER, rank + 1, false);
        add("shares", HVD_REDUCESCATTER, rows, false);
        add("uneven shares", HVD_REDUCESCATTER, rows + 1, false);
        add("messages", HVD_ALLTOALL, rows, false);
        add("root's", HVD_BROADCAST, rows, true);
        add("adasum", HVD_ALLREDUCE, rows, true).reduce_op = HVD_ADASUM;
    }
    Workload(const Workload&) = delete;
    Workload& operator=(const Workload&) = delete;
    ~Workload() { framework_.free(memory_); }

    /// The first failure's words; empty where all went well.
    std::string run(hvd_context* context, const std::string& where) {
        std::vector<hvd_ticket> tickets(requests_.size());
        if (hvd_submit(context, requests_.data(), requests_.size(), tickets.data()) != HVD_OK) {
            return hvd_last_error();
        }
        std::string failure;
        if (hvd_wait_all_stream(context, tickets.data(), tickets.size(), framework_.stream(),
                                kLimitMs) != HVD_OK) {
            failure = hvd_last_error();
        }
        std::size_t at = 0;
        for (const auto ticket : tickets) {
            const auto status = hvd_wait(context, ticket, kLimitMs);
            require(status != HVD_IN_PROGRESS, where + "an operation hangs: " + requests_[at].name);
            if (status != HVD_OK && failure.empty()) {
                failure = hvd_last_error();
            }
            require(hvd_release(context, ticket) == HVD_OK, "releasing");
            ++at;
        }
        return failure;
    }

private:
    static constexpr std::size_t kFloats = 4096;
    static constexpr std::size_t kMost = 64;  // of a tensor

    hvd_request& add(const char* name, hvd_op op, std::int64_t rows, bool is_in_place) {
        const auto place = memory_ + tensors_.size() * kMost * sizeof(float);
        tensors_.push_back(std::make_unique<Rows>(place, rows, framework_));
        requests_.push_back(
            request_of(op, *tensors_.back(), is_in_place ? tensors_.back().get() : nullptr));
        requests_.back().name = name;
        return requests_.back();
    }

    const Framework& framework_;
    std::vector<float> values_ = std::vector<float>(kFloats, 1);
    CUdeviceptr memory_;
    std::vector<std::unique_ptr<Rows>> tensors_;
    std::vector<hvd_request> requests_;
};

void check_end(const Function& function, int number) {
    const auto where = function.name + " " + std::to_string(number) + ": ";
    for (const auto& violation : Framework::control().take_violations()) {
        require(false, where + violation);
    }
#ifdef HVD_HAVE_NCCL
    if (uses_nccl()) {
        for (const auto& leak : nccl().leaks()) {
            require(leak.find("communicator") == std::string::npos, where + "left " + leak);
        }
    }
#endif
}

/// A world in which one rank's call `number` of the function fails, and one in which none does.
/// False where there is no such call.
bool fail_call(const Framework& framework, const Function& function, int number) {
    const auto where = function.name + " " + std::to_string(number) + ": ";
    bool has_failed = false;
    int failing = 0;
    {
        auto world = hvd::init();
        // The id of a communicator is the first rank's.
        failing = function.name == "ncclGetUniqueId" ? 0 : world.size() - 1;
        Workload workload(framework, world.rank(), world.size());
        world.barrier("begin");
        const auto calls = function.calls();
        if (world.rank() == failing) {
            function.fail(number);
        }
        const auto failure = workload.run(world.context(), where);
        forgive();
        has_failed = world.rank() == failing && function.calls() - calls > number;
        if (has_failed) {
            require(!failure.empty() || may_fail_unseen(function.name), where + "no error");
        }
        const auto name = has_failed ? function.name : "rank " + std::to_string(failing);
        require(failure.empty() || failure.find(name) != std::string::npos, where + failure);
        require(hvd_shutdown(world.context()) == HVD_OK, "leaving");
        check_end(function, number);
    }
    auto world = hvd::init();
    std::vector<float> goes_on{has_failed ? 1.0F : 0.0F};
    world.broadcast("goes on", std::span(goes_on), failing);
    return goes_on.front() != 0;
}

/// Everything works, and what is kept for later is as much as it can be.
std::vector<std::string> healthy_leaks(const Framework& framework) {
    for (int round = 0; round < 10; ++round) {
        auto world = hvd::init();
        Workload workload(framework, world.rank(), world.size());
        const auto failure = workload.run(world.context(), "healthy: ");
        require(failure.empty(), "healthy: " + failure);
        world.barrier("end");
    }
    Framework::check();
    return Framework::control().leaks();
}

void fail_calls(const Framework& framework, const Function& function) {
    const int most = most_calls(function.name);
    for (int number = 0; number < most && fail_call(framework, function, number); ++number) {
    }
}

void device_errors() {
    int rank = 0;
    {
        auto world = hvd::init();
        rank = world.rank();
    }
    const Framework framework(rank);
    for (const auto* const name : kOpening) {
        if (std::string(name).starts_with(chosen_prefix())) {
            (void)fail_call(framework, driver_function(name), 0);
        }
    }
    const auto before = healthy_leaks(framework);
    // Memory that could not be given back is left, so that these come last.
    const auto gives_back = [](const Function& function) {
        return function.name.starts_with("cuMemFree");
    };
    const auto functions = running_functions();
    for (const auto& function : functions) {
        if (!gives_back(function)) {
            fail_calls(framework, function);
        }
    }
    require(healthy_leaks(framework) == before, "failures leave no more than what there was");
    for (const auto& function : functions) {
        if (gives_back(function)) {
            fail_calls(framework, function);
        }
    }
}

}  // namespace

std::map<std::string, void (*)()> device_error_cases() {
    return {{"device_errors", device_errors}};
}

}  // namespace hvd::test
