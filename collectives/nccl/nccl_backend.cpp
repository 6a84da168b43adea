// SPDX-License-Identifier: Apache-2.0
#include "collectives/cuda/gpus.hpp"
#include "collectives/nccl/closing.hpp"
#include "collectives/nccl/communicator.hpp"
#include "collectives/nccl/factory.hpp"
#include "collectives/nccl/fusion_buffers.hpp"
#include "collectives/nccl/pinned_buffers.hpp"
#include "collectives/nccl/preparation.hpp"
#include "collectives/nccl/reduction.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace hvd::coll::nccl {
namespace {

/// What NCCL moves at about its full rate between the GPUs of a host, as the buckets of PyTorch's
/// DistributedDataParallel (25 MB); not measured here, where there was one GPU.
constexpr std::size_t kFusionBytes = std::size_t{32} << 20U;

class NcclBackend final : public Backend {
public:
    NcclBackend(cuda::Gpus& gpus, Options options, Backend* across, Logger log)
        : gpus_(gpus),
          options_(std::move(options)),
          across_(across),
          library_(std::make_shared<LoadedLibrary>(options_.library, std::move(log))),
          buffers_(options_.kept_bytes),
          closing_(gpus) {}

    NcclBackend(const NcclBackend&) = delete;
    NcclBackend& operator=(const NcclBackend&) = delete;
    ~NcclBackend() override { trim(); }

    [[nodiscard]] std::string_view name() const noexcept override { return "nccl"; }

    [[nodiscard]] int score(const Task& task, const ProcessSet& set) const noexcept override {
        const bool reduces = task.op == Op::allreduce || task.op == Op::reducescatter;
        return !task.device.is_host() && (!reduces || can_reduce(task.type, task.reduce)) &&
                       (connects(set) || can_cross(task))
                   ? 100
                   : 0;
    }

    [[nodiscard]] std::size_t fusion_bytes() const noexcept override { return kFusionBytes; }
    [[nodiscard]] int max_in_flight() const noexcept override { return 64; }

    [[nodiscard]] std::unique_ptr<Communicator> open(const ProcessSet& set,
                                                     Device device) override {
        auto& gpu = gpus_.gpu(device.index);
        gpu.memory().set_limit(buffers_.limit_beside(gpu));
        return std::make_unique<StreamCommunicator>(
            *this, library_, StreamCommunicator::Place{gpus_, gpu, closing_, buffers_}, set,
            connects(set) ? nullptr : across_hosts(set), options_.connect_limit);
    }

    void release_idle() noexcept override {
        closing_.step();
        trim();
    }

private:
    /// Whether NCCL connects all members.
    [[nodiscard]] bool connects(const ProcessSet& set) const noexcept {
        return across_ == nullptr || set.is_on_one_host();
    }

    [[nodiscard]] static bool can_cross(const Task& task) noexcept {
        return task.op == Op::allreduce && !is_adasum(task.reduce);
    }

    [[nodiscard]] std::unique_ptr<AcrossHosts> across_hosts(const ProcessSet& set) {
        auto made = std::make_unique<AcrossHosts>(
            AcrossHosts{.split = split_by_host(set), .host = nullptr, .buffers = pinned_buffers_});
        if (made->split.has_part()) {
            std::erase_if(crossings_, [](const auto& each) { return each.second.expired(); });
            auto& known = crossings_[{set.id, set.incarnation}];
            made->host = known.lock();
            if (made->host == nullptr) {
                made->host = across_->open(made->split.across, {});
                known = made->host;
            }
        }
        return made;
    }

    void trim() noexcept {
        for (auto* const gpu : gpus_.all()) {
            gpu->memory().trim();
        }
    }

    cuda::Gpus& gpus_;
    Options options_;
    Backend* across_;
    std::shared_ptr<LoadedLibrary> library_;  // also of threads that load it
    FusionBuffers buffers_;
    PinnedBuffers pinned_buffers_;
    Closing closing_;
    /// The communicators across hosts that are open, by the set's id and incarnation.
    std::map<std::pair<int, std::uint32_t>, std::weak_ptr<Communicator>> crossings_;
};

}  // namespace

std::unique_ptr<Backend> create(DeviceTensors* devices,
                                Options options,
                                Backend* across,
                                const Logger& log) {
    if (devices == nullptr) {
        return nullptr;
    }
    return std::make_unique<NcclBackend>(static_cast<cuda::Gpus&>(*devices), std::move(options),
                                         across, log);
}

}  // namespace hvd::coll::nccl
