// SPDX-License-Identifier: Apache-2.0
//
// Processes for abi_test.cpp, through the C ABI alone:
//   abi_worker launch N CASE    starts N ranks as mpiexec.hydra would, or as torchrun would on
//                               HVD_TEST_HOSTS hosts, and waits for them
//   abi_worker rank CASE        is one of them
#include "tests/integration/engine/abi_worker.hpp"

#include "runtime/include/hvd/hvd.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

/// Memory that the engine's thread held at the fork belongs to no thread of the child: that is no
/// leak.
bool is_forked = false;

}  // namespace

// Asked by LeakSanitizer when it is about to look; the name is its own.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" int __lsan_is_turned_off() {
    return is_forked ? 1 : 0;
}

void hvd::test::require(bool condition, const std::string& message) {
    if (!condition) {
        throw std::runtime_error(message + " (" + hvd_last_error() + ")");
    }
}

namespace {

using hvd::test::require;

void require_sum(hvd::World& world, const std::string& name) {
    std::vector<float> data(100, static_cast<float>(world.rank() + 1));
    world.allreduce(name, std::span(data), {.op = hvd::ReduceOp::sum});
    const auto size = static_cast<float>(world.size());
    require(data.front() == size * (size + 1) / 2, "wrong sum");
}

void leave_and_join() {
    for (int round = 0; round < 100; ++round) {
        auto world = hvd::init();
        require_sum(world, "x");
        require_sum(world, "x");
    }
    require(hvd_current() == nullptr, "still in a world");
}

void join_twice() {
    std::vector<hvd_context*> contexts(4);
    std::vector<std::jthread> threads;
    threads.reserve(contexts.size());
    for (auto& context : contexts) {
        threads.emplace_back([&context] { (void)hvd_init(nullptr, &context); });
    }
    threads.clear();
    for (auto* context : contexts) {
        require(context != nullptr && context == hvd_current(), "another context");
    }
    auto world = hvd::init();
    require_sum(world, "x");
}

/// A data loader: forked while the engine lives, it asks for its rank and goes.
void fork_children() {
    auto world = hvd::init();
    require_sum(world, "before");
    std::vector<pid_t> children;
    for (int child = 0; child < 2; ++child) {
        const pid_t pid = ::fork();
        if (pid != 0) {
            children.push_back(pid);
            continue;
        }
        is_forked = true;
        hvd_topology topology{};
        topology.struct_size = sizeof topology;
        const bool knows = hvd_topology_of(world.context(), &topology) == HVD_OK &&
                           topology.rank == world.rank() && topology.size == world.size();
        hvd_ticket ticket = 0;
        hvd_request request{};
        request.struct_size = sizeof request;
        request.name = "child";
        request.op = HVD_BARRIER;
        const bool refused = hvd_submit(world.context(), &request, 1, &ticket) == HVD_UNAVAILABLE &&
                             hvd_shutdown(world.context()) == HVD_UNAVAILABLE;
        // With all destructors of a process. NOLINTNEXTLINE(concurrency-mt-unsafe)
        std::exit(knows && refused ? 0 : 1);
    }
    for (int round = 0; round < 100; ++round) {
        require_sum(world, "during");
    }
    for (const auto child : children) {
        int status = 0;
        require(::waitpid(child, &status, 0) == child && status == 0, "a child failed");
    }
    require_sum(world, "after");
}

/// The ranks of one job see its launcher alone.
void meet_own_job() {
    auto world = hvd::init();
    const std::vector<std::int64_t> mine{::getppid()};
    for (const auto parent : world.allgather("launcher", std::span(mine))) {
        require(parent == ::getppid(), "met a rank of another job");
    }
}

/// By name or as the default, set 0 is the world; what does not exist is refused.
void world_is_process_set(hvd::World& world) {
    const auto sets = world.process_sets();
    require(sets == std::vector{hvd::ProcessSet{}}, "the world alone");
    const auto ranks = world.ranks_of(sets.front());
    require(
        ranks.size() == static_cast<std::size_t>(world.size()) && ranks.back() == world.size() - 1,
        "ranks of the world");
    std::vector<float> data{1};
    world.allreduce("in set 0", std::span(data), {.op = hvd::ReduceOp::sum}, sets.front());
    require(data.front() == static_cast<float>(world.size()), "sum in set 0");
    try {
        world.allreduce("in set 5", std::span(data), {}, {.id = 5});
        require(false, "a set that does not exist");
    } catch (const hvd::Failure& failure) {
        require(std::string(failure.what()).find("process set 5") != std::string::npos, "why");
    }
}

void all_operations() {
    auto world = hvd::init();
    const int rank = world.rank();
    const int size = world.size();
    std::vector<std::int32_t> rows(static_cast<std::size_t>(rank) + 1, rank);
    const auto all = world.allgather("rows", std::span(rows));
    require(all.size() == static_cast<std::size_t>(size * (size + 1) / 2), "rows");
    require(all.back() == size - 1, "order of ranks");
    std::vector<double> values(3, rank);
    world.broadcast("values", std::span(values), size - 1);
    require(values.front() == size - 1, "broadcast");
    std::vector<std::int64_t> average{2 * std::int64_t{rank}};
    world.allreduce("average", std::span(average));
    require(average.front() == size - 1, "average");
    world.barrier();
    world_is_process_set(world);

    // One group of two types and two operations.
    std::vector<float> a{1};
    std::vector<double> b{2};
    const std::array group = {
        hvd::Request::allreduce("a", std::span(a), {.op = hvd::ReduceOp::sum}),
        hvd::Request::allreduce("b", std::span(b), {.op = hvd::ReduceOp::sum, .postscale = 0.5})};
    world.run(group);
    require(a.front() == static_cast<float>(size) && b.front() == size, "group");

    hvd_ticket stale = 12345;
    require(hvd_wait(world.context(), stale, 0) == HVD_INVALID_ARGUMENT, "unknown ticket");
    const auto late =
        world.submit(hvd::Request::barrier("rank " + std::to_string(rank) + " alone"));
    require(size == 1 || !late.wait(std::chrono::milliseconds(20)), "a barrier of one rank");
    world.barrier();  // nobody leaves while another still waits in vain
}

hvd_tensor tensor_of(float* data, const std::int64_t* shape) {
    hvd_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    tensor.data = data;
    tensor.shape = shape;
    tensor.ndim = 1;
    tensor.dtype = HVD_FLOAT32;
    return tensor;
}

hvd_request request_of(const char* name, hvd_op op, const hvd_tensor* in, const hvd_tensor* out) {
    hvd_request request{};
    request.struct_size = sizeof request;
    request.name = name;
    request.in = in;
    request.out = out;
    request.prescale = 1;
    request.postscale = 1;
    request.op = op;
    request.reduce_op = HVD_SUM;
    return request;
}

/// Memory of the runtime: aligned, and what collectives work on.
void memory() {
    auto world = hvd::init();
    void* none = &world;
    require(hvd_alloc(world.context(), 0, &none) == HVD_OK && none == nullptr, "0 bytes");
    require(hvd_free(world.context(), none) == HVD_OK, "freeing nothing");
    require(hvd_alloc(world.context(), 8, nullptr) == HVD_INVALID_ARGUMENT, "no place");
    for (const std::size_t count : {1U, 100U, 100'000U}) {
        void* place = nullptr;
        require(hvd_alloc(world.context(), count * sizeof(float), &place) == HVD_OK, "memory");
        require(reinterpret_cast<std::uintptr_t>(place) % 64 == 0, "alignment");
        const std::span data(static_cast<float*>(place), count);
        std::ranges::fill(data, 2.0F);
        world.allreduce("of " + std::to_string(count), data, {.op = hvd::ReduceOp::sum});
        require(
            data.front() == 2.0F * static_cast<float>(world.size()) && data.back() == data.front(),
            "wrong sum");
        require(hvd_free(world.context(), place) == HVD_OK, "freeing");
    }
}

/// The place of the first that ends.
void wait_for_any() {
    auto world = hvd::init();
    auto* const context = world.context();
    const bool is_late = world.rank() == world.size() - 1 && world.size() > 1;
    const std::array requests{request_of("late", HVD_BARRIER, nullptr, nullptr),
                              request_of("early", HVD_BARRIER, nullptr, nullptr)};
    std::array<hvd_ticket, 2> tickets{};
    std::size_t index = 7;
    require(hvd_wait_any(context, nullptr, 0, 0, &index) == HVD_INVALID_ARGUMENT, "no tickets");
    if (is_late) {
        require(hvd_submit(context, &requests[1], 1, &tickets[1]) == HVD_OK, "early");
        require(hvd_wait(context, tickets[1], -1) == HVD_OK, "its end");
        world.barrier("told");  // the others have seen that "late" waits for us alone
        require(hvd_submit(context, requests.data(), 1, tickets.data()) == HVD_OK, "late");
    } else {
        require(hvd_submit(context, requests.data(), 2, tickets.data()) == HVD_OK, "both");
        if (world.size() > 1) {
            require(hvd_wait_any(context, tickets.data(), 2, -1, &index) == HVD_OK && index == 1,
                    "which was early");
            index = 7;
            require(hvd_wait_any(context, tickets.data(), 1, 20, &index) == HVD_IN_PROGRESS &&
                        index == 7,
                    "a limit");
            world.barrier("told");
        }
    }
    require(hvd_wait_any(context, tickets.data(), 1, -1, &index) == HVD_OK && index == 0, "late");
    require(hvd_wait(context, tickets[1], -1) == HVD_OK, "early, again");
    for (const auto ticket : tickets) {
        require(hvd_release(context, ticket) == HVD_OK, "releasing");
    }
}

/// Two operations that are repeated over the same memory, one of whose results the runtime owns.
void plans() {
    auto world = hvd::init();
    auto* const context = world.context();
    const std::array<std::int64_t, 1> extent{3};
    std::array<float, 3> data{};
    std::array<float, 3> sum{};
    const auto in = tensor_of(data.data(), extent.data());
    const auto out = tensor_of(sum.data(), extent.data());
    const std::array requests{request_of("sum", HVD_ALLREDUCE, &in, &out),
                              request_of("rows", HVD_ALLGATHER, &in, nullptr)};
    hvd_plan* plan = nullptr;
    require(hvd_plan_create(context, requests.data(), requests.size(), &plan) == HVD_OK, "a plan");
    hvd_tensor rows{};
    rows.struct_size = sizeof rows;
    require(hvd_plan_result(context, plan, 1, &rows) == HVD_INVALID_ARGUMENT, "not started");
    for (int step = 1; step <= 20; ++step) {
        data.fill(static_cast<float>(step * (world.rank() + 1)));
        require(hvd_plan_start(context, plan) == HVD_OK, "starting");
        require(hvd_plan_wait(context, plan, -1) == HVD_OK, "waiting");
        const int ranks = world.size() * (world.size() + 1) / 2;
        require(sum.back() == static_cast<float>(step * ranks), "wrong sum");
        require(hvd_plan_result(context, plan, 1, &rows) == HVD_OK && rows.ndim == 1 &&
                    rows.shape[0] == std::int64_t{3} * world.size(),
                "the rows of all ranks");
        const std::span all(static_cast<const float*>(rows.data),
                            static_cast<std::size_t>(rows.shape[0]));
        require(all.front() == static_cast<float>(step) &&
                    all.back() == static_cast<float>(step * world.size()),
                "rows in the order of ranks");
    }
    require(hvd_plan_result(context, plan, 2, &rows) == HVD_INVALID_ARGUMENT, "no third");
    require(hvd_plan_wait(context, nullptr, 0) == HVD_INVALID_ARGUMENT, "no plan");
    require(hvd_plan_free(context, plan) == HVD_OK, "freeing");
    require(hvd_plan_free(context, nullptr) == HVD_OK, "freeing nothing");
}

/// A process set with a rank that the next world lacks is refused.
void plan_in_smaller_world() {
    const std::array<std::int64_t, 1> extent{1};
    std::array<float, 1> data{};
    const auto tensor = tensor_of(data.data(), extent.data());
    auto request = request_of("weights", HVD_BROADCAST, &tensor, &tensor);
    hvd_plan* plan = nullptr;
    int size = 0;
    {
        auto world = hvd::init();
        size = world.size();
        request.root = size - 1;
        require(hvd_plan_create(world.context(), &request, 1, &plan) == HVD_OK, "a plan");
        require(hvd_plan_run(world.context(), plan, -1) == HVD_OK, "running");
    }
    (void)::setenv("HOROVOD_LAUNCHER", "none", 1);
    auto alone = hvd::init();
    require(alone.size() == 1, "not alone");
    const auto expected = size == 1 ? HVD_OK : HVD_INVALID_ARGUMENT;
    require(hvd_plan_run(alone.context(), plan, -1) == expected, "running alone");
    require(hvd_plan_free(alone.context(), plan) == HVD_OK, "freeing");
}

const std::map<std::string, void (*)()> kCases{
    {"leave_and_join", leave_and_join},
    {"join_twice", join_twice},
    {"fork_children", fork_children},
    {"meet_own_job", meet_own_job},
    {"all_operations", all_operations},
    {"memory", memory},
    {"wait_for_any", wait_for_any},
    {"plans", plans},
    {"plan_in_smaller_world", plan_in_smaller_world},
};

std::vector<std::string> variables_of_hydra(int rank, int ranks) {
    return {"PMI_RANK=" + std::to_string(rank), "PMI_SIZE=" + std::to_string(ranks),
            "MPI_LOCALRANKID=" + std::to_string(rank), "MPI_LOCALNRANKS=" + std::to_string(ranks)};
}

/// The last rank alone asks for NCCL inside of hosts. The first hosts have one rank more where
/// they cannot have as many each.
std::vector<std::string> variables_of_torchrun(int rank, int ranks, int hosts) {
    const auto host_of = [&](int each) { return each * hosts / ranks; };
    int first = rank;
    while (first > 0 && host_of(first - 1) == host_of(rank)) {
        --first;
    }
    int end = rank;
    while (end < ranks && host_of(end) == host_of(rank)) {
        ++end;
    }
    return {"TORCHELASTIC_RUN_ID=" + std::to_string(::getpid()),
            "TORCHELASTIC_RESTART_COUNT=0",
            "MASTER_ADDR=127.0.0.1",
            "MASTER_PORT=29500",
            "RANK=" + std::to_string(rank),
            "WORLD_SIZE=" + std::to_string(ranks),
            "LOCAL_RANK=" + std::to_string(rank - first),
            "LOCAL_WORLD_SIZE=" + std::to_string(end - first),
            "GROUP_RANK=" + std::to_string(host_of(rank)),
            "HVD_FAKE_NCCL_HOST=" + std::to_string(host_of(rank)),
            "HOROVOD_HIERARCHICAL_ALLREDUCE=" + std::to_string(rank == ranks - 1 ? 1 : 0)};
}

int launch(int ranks, const std::string& name) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): this process has one thread
    const char* const hosts = std::getenv("HVD_TEST_HOSTS");
    std::vector<pid_t> pids;
    for (int rank = 0; rank < ranks; ++rank) {
        auto entries = hosts == nullptr ? variables_of_hydra(rank, ranks)
                                        : variables_of_torchrun(rank, ranks, std::stoi(hosts));
        std::vector<char*> environment;
        environment.reserve(entries.size());
        for (auto& entry : entries) {
            environment.push_back(entry.data());
        }
        for (char** entry = environ; *entry != nullptr; ++entry) {
            environment.push_back(*entry);
        }
        environment.push_back(nullptr);
        std::vector<std::string> words{"abi_worker", "rank", name};
        std::vector<char*> argv;
        argv.reserve(words.size() + 1);
        for (auto& word : words) {
            argv.push_back(word.data());
        }
        argv.push_back(nullptr);
        pid_t pid = 0;
        if (posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv.data(),
                        environment.data()) != 0) {
            return 1;
        }
        pids.push_back(pid);
    }
    int failed = 0;
    for (const auto pid : pids) {
        int status = 0;
        failed += ::waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
    }
    return failed;
}

int be_rank(const std::string& name) {
    try {
        auto cases = hvd::test::misuse_cases();
        cases.merge(hvd::test::fusion_cases());
        cases.merge(hvd::test::set_cases());
        cases.merge(hvd::test::round_cases());
        cases.merge(hvd::test::stream_cases());
        cases.merge(hvd::test::wire_cases());
#ifdef HVD_HAVE_CUDA
        cases.merge(hvd::test::device_cases());
        cases.merge(hvd::test::device_error_cases());
        cases.merge(hvd::test::device_set_cases());
        cases.merge(hvd::test::device_wire_cases());
#endif
#ifdef HVD_HAVE_NCCL
        cases.merge(hvd::test::gpu_choice_cases());
        cases.merge(hvd::test::gpu_end_cases());
        cases.merge(hvd::test::gpu_host_cases());
        cases.merge(hvd::test::gpu_memory_cases());
#endif
        cases.insert(kCases.begin(), kCases.end());
        cases.at(name)();
        return 0;
    } catch (const std::exception& exception) {
        std::fprintf(stderr, "%s: %s\n", name.c_str(), exception.what());
        return 1;
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 3 && words[0] == "launch") {
        return launch(std::stoi(words[1]), words[2]);
    }
    if (words.size() == 2 && words[0] == "rank") {
        return be_rank(words[1]);
    }
    return 2;
}
