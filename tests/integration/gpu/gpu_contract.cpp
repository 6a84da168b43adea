// SPDX-License-Identifier: Apache-2.0
//
// The backend contract for GPUs, on the stand-ins for the CUDA driver and NCCL: one GPU
// for each rank, on HVD_GPU_HOSTS hosts between which NCCL cannot connect. The cases give memory of
// the host, which is copied to the GPU and back.
#include "collectives/base/deadline.hpp"
#include "collectives/cuda/gpus.hpp"
#include "collectives/cuda/shared_library.hpp"
#include "collectives/nccl/factory.hpp"
#include "collectives/tcp/factory.hpp"
#include "collectives/transport/tcp/mesh.hpp"
#include "tests/integration/backend_contract/contract.hpp"
#include "tests/support/file_store.hpp"
#include "tests/support/gpu/control.hpp"
#include "tests/support/gpu/nccl_control.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <numeric>
#include <thread>
#include <utility>

namespace hvd::test {
namespace {

using namespace std::chrono_literals;

using coll::Op;
using coll::Segment;
using coll::Task;

constexpr std::size_t kCaseBytes = 4096;

template <class T>
T value_of(Result<T> result) {
    if (!result) {
        throw Exception(result.error());
    }
    return std::move(result).value();
}

std::size_t results_of(const Task& task, const Segment& segment, int place) {
    switch (task.op) {
        case Op::allgather:
        case Op::alltoall:
            return std::accumulate(segment.counts.begin(), segment.counts.end(), std::size_t{0});
        case Op::reducescatter: return segment.counts[static_cast<std::size_t>(place)];
        default: return segment.count;
    }
}

/// A task's memory on the GPU, in place of that on the host.
class OnGpu {
public:
    OnGpu(coll::cuda::Gpus& gpus, const Task& task, int place) : gpus_(gpus), task_(task) {
        task_.device = {.kind = coll::Device::Kind::cuda, .index = gpus.first_attached()};
        const auto element = coll::size_of(task.type);
        for (auto& segment : task_.segments) {
            const auto* const in = segment.in;
            auto* const out = segment.out;
            const std::size_t in_bytes = segment.count * element;
            const std::size_t out_bytes = results_of(task, segment, place) * element;
            blocks_.push_back(gpus.upload(task_.device.index, {in, in_bytes}));
            auto* const block = blocks_.back().get();
            segment.in = block;
            if (out >= in && out < in + in_bytes) {
                segment.out = block + (out - in);
            } else {
                blocks_.push_back(gpus.allocate(task_.device.index, out_bytes));
                segment.out = blocks_.back().get();
            }
            results_.push_back({.from = segment.out, .to = out, .bytes = out_bytes});
        }
    }

    [[nodiscard]] const Task& task() const noexcept { return task_; }

    void copy_results() const {
        auto& gpu = gpus_.gpu(task_.device.index);
        const coll::cuda::Device::Current current(gpu.device());
        for (const auto& result : results_) {
            if (result.bytes != 0) {
                expect(gpu.driver().cuMemcpyDtoHAsync(result.to,
                                                      reinterpret_cast<CUdeviceptr>(result.from),
                                                      result.bytes, gpu.stream()) == CUDA_SUCCESS,
                       "cuMemcpyDtoHAsync");
            }
        }
        expect(gpu.driver().cuStreamSynchronize(gpu.stream()) == CUDA_SUCCESS,
               "cuStreamSynchronize");
    }

private:
    struct Result {
        const std::byte* from;
        std::byte* to;
        std::size_t bytes;
    };

    coll::cuda::Gpus& gpus_;
    Task task_;
    std::vector<coll::DeviceBytes> blocks_;
    std::vector<Result> results_;
};

class CopyingWork final : public coll::Work {
public:
    CopyingWork(OnGpu memory, coll::Communicator& communicator)
        : memory_(std::move(memory)), work_(value_of(communicator.start(memory_.task()))) {}

    [[nodiscard]] Result<Progress> poll() override {
        HVD_TRY(const auto progress, work_->poll());
        if (progress == Progress::done) {
            memory_.copy_results();
        }
        return progress == Progress::enqueued ? Progress::pending : progress;
    }

private:
    OnGpu memory_;
    std::unique_ptr<coll::Work> work_;
};

class CopyingCommunicator final : public coll::Communicator {
public:
    CopyingCommunicator(coll::cuda::Gpus& gpus,
                        std::unique_ptr<coll::Communicator> inner,
                        int place)
        : Communicator("nccl"), gpus_(gpus), inner_(std::move(inner)), place_(place) {}

    [[nodiscard]] bool gathers(const Task& task) const noexcept override {
        return inner_->gathers(task);
    }
    [[nodiscard]] std::span<std::byte> workspace(std::size_t /*bytes*/) override { return {}; }

private:
    std::unique_ptr<coll::Work> do_start(const Task& task) override {
        if (task.op != Op::barrier) {
            return std::make_unique<CopyingWork>(OnGpu(gpus_, task, place_), *inner_);
        }
        // The engine's barriers are for the host's backends.
        const Task meeting{.op = Op::allreduce,
                           .type = coll::DataType::u8,
                           .segments = {{.in = &one_, .out = &one_, .count = 1}}};
        return std::make_unique<CopyingWork>(OnGpu(gpus_, meeting, place_), *inner_);
    }
    void do_abort(const Error& cause) override { inner_->abort(cause); }

    coll::cuda::Gpus& gpus_;
    std::unique_ptr<coll::Communicator> inner_;
    int place_;
    std::byte one_{};
};

class CopyingBackend final : public coll::Backend {
public:
    CopyingBackend(coll::cuda::Gpus& gpus, coll::Backend& inner, coll::Store& store)
        : gpus_(gpus), inner_(inner), store_(store) {}

    [[nodiscard]] std::string_view name() const noexcept override { return inner_.name(); }
    [[nodiscard]] std::size_t fusion_bytes() const noexcept override {
        return inner_.fusion_bytes();
    }
    [[nodiscard]] int score(const Task& task, const coll::ProcessSet& set) const noexcept override {
        Task there{.op = task.op, .reduce = task.reduce, .type = task.type};
        there.device.kind = coll::Device::Kind::cuda;
        return inner_.score(there, set);
    }

    /// The members exchange here what the executor of the engine lets them exchange.
    [[nodiscard]] std::unique_ptr<coll::Communicator> open(const coll::ProcessSet& set,
                                                           coll::Device /*device*/) override {
        auto inner =
            inner_.open(set, {.kind = coll::Device::Kind::cuda, .index = gpus_.first_attached()});
        const auto key = [&](int place) {
            return std::to_string(set.id) + " " + std::to_string(place);
        };
        auto own = inner->connection_info();
        for (const auto limit = Deadline::in(20s); !own && !limit.has_passed();) {
            std::this_thread::yield();
            own = inner->connection_info();
        }
        expect(own.has_value() && store_.put(key(set.place), *own).has_value(), "put");
        std::vector<std::byte> infos;
        for (int place = 0; place < set.size(); ++place) {
            const auto info = value_of(store_.get(key(place), Deadline::in(20s)));
            infos.insert(infos.end(), info.begin(), info.end());
        }
        inner->connect(infos);
        return std::make_unique<CopyingCommunicator>(gpus_, std::move(inner), set.place);
    }

private:
    coll::cuda::Gpus& gpus_;
    coll::Backend& inner_;
    coll::Store& store_;
};

gpu::Control& control(const std::string& driver) {
    return *reinterpret_cast<gpu::ControlFunction>(
        coll::cuda::find_symbol(value_of(coll::cuda::open_library(driver)), gpu::kControlSymbol))();
}

void run_rank(ContractCase run, coll::LocalGroup& group, coll::Store& store) {
    const std::string folder = HVD_FAKE_GPU "/";
    coll::cuda::Gpus gpus(folder + "libcuda.so.1");
    gpus.attach(group.rank());
    auto& driver = control(folder + "libcuda.so.1");
    driver.choose_order(static_cast<std::uint64_t>(group.rank()));
    auto ranks = world_on_one_host(group.rank(), group.size());
    for (std::size_t rank = 0; rank < ranks.hosts.size(); ++rank) {
        ranks.hosts[rank] = static_cast<int>(rank) % HVD_GPU_HOSTS;
    }
    const auto own_host = ranks.hosts[static_cast<std::size_t>(group.rank())];
    // NOLINTNEXTLINE(concurrency-mt-unsafe): this process has one thread
    (void)::setenv(gpu::kEnvNcclHost, std::to_string(own_host).c_str(), 1);
    std::unique_ptr<coll::net::Mesh> mesh;
    std::unique_ptr<coll::Backend> between_hosts;
    if (!ranks.is_on_one_host()) {
        mesh = value_of(coll::net::Mesh::connect(
            store,
            {.rank = group.rank(), .size = group.size(), .host = "testhost", .prefix = "world/"},
            Deadline::in(20s)));
        between_hosts = coll::tcp::create(*mesh, coll::SumOrder::any);
    }
    const auto nccl = coll::nccl::create(&gpus, {.library = folder + "libnccl.so.2"},
                                         between_hosts.get(), Logger("test", LogLevel::warn));
    CopyingBackend backend(gpus, *nccl, store);
    const auto world = backend.open(ranks, {});
    coll::Reactor reactor;
    ContractRank self{backend, *world, group, reactor, group.rank(), group.size()};
    run(self);
    for (const auto& violation : driver.take_violations()) {
        expect(false, violation);
    }
}

}  // namespace

void check_all_well(const std::vector<RankEnd>& ends) {
    CHECK(failures(ends) == "");
}

void run_on_processes(ContractCase run, void (*check)(const std::vector<RankEnd>& ends)) {
    const int size = GENERATE(1, 2, 3, 4, 7);
    if (size > HVD_MOST_RANKS) {
        return;
    }
    const auto socket = unique_socket_name();
    const TempDir folder;
    const auto ends = run_ranks(size, [&](int rank) {
        const auto group = value_of(coll::LocalGroup::form(
            {.rank = rank, .size = size, .name = socket, .segments = {0, kCaseBytes}},
            Deadline::in(10s)));
        FileStore store(folder.path());
        run_rank(run, *group, store);
        return 0;
    });
    CAPTURE(size);
    check(ends);
}

void run_on_threads(ContractCase /*run*/) {
    FAIL("these ranks are processes: leave the cases for threads out");
}

}  // namespace hvd::test
