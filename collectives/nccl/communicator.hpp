// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/cuda/gpu.hpp"
#include "collectives/nccl/closing.hpp"
#include "collectives/nccl/connection.hpp"
#include "collectives/nccl/fusion_buffers.hpp"
#include "collectives/nccl/hierarchical_launch.hpp"
#include "collectives/nccl/launch.hpp"
#include "collectives/nccl/preparation.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace hvd::coll::nccl {

class StreamWork;

/// A process set's communicator for tensors on one list of its members' GPUs. On several hosts, of
/// which NCCL connects the ranks of each alone, it is for allreduces.
class StreamCommunicator final : public Communicator {
public:
    /// Where its collectives run.
    struct Place {
        const cuda::Gpus& all;  // of this process
        cuda::Gpu& gpu;
        Closing& closing;
        FusionBuffers& buffers;
    };

    /// The references outlive the communicator. Begins to load NCCL where it is not loaded yet.
    /// `across`: nullptr where NCCL connects all members.
    StreamCommunicator(const Backend& backend,
                       const std::shared_ptr<LoadedLibrary>& library,
                       const Place& where,
                       ProcessSet set,
                       std::unique_ptr<AcrossHosts> across,
                       std::chrono::milliseconds connect_limit);
    StreamCommunicator(const StreamCommunicator&) = delete;
    StreamCommunicator& operator=(const StreamCommunicator&) = delete;
    ~StreamCommunicator() override;

    [[nodiscard]] bool gathers(const Task&) const noexcept override { return true; }
    [[nodiscard]] std::span<std::byte> workspace(std::size_t) override { return {}; }
    [[nodiscard]] std::optional<std::vector<std::byte>> connection_info() override;
    void connect(std::span<const std::byte> infos) override;

private:
    friend class StreamWork;

    std::unique_ptr<Work> do_start(const Task& task) override;
    void do_abort(const Error& cause) override;
    [[nodiscard]] bool is_connected();
    void look();

    Preparation preparation_;
    const cuda::Gpus& gpus_;
    cuda::Gpu& gpu_;
    Closing& closing_;
    FusionBuffers& buffers_;
    ProcessSet set_;
    std::unique_ptr<AcrossHosts> across_;
    std::chrono::milliseconds connect_limit_;
    std::optional<Agreed> agreed_;            // once all members have met
    std::unique_ptr<Connection> connection_;  // with the first task
    std::optional<Error> aborted_;
    std::vector<StreamWork*> in_flight_;  // in the order in which they started
    std::chrono::steady_clock::time_point next_look_{};
};

/// One task on its way into the stream and through it.
class StreamWork final : public Work {
public:
    StreamWork(StreamCommunicator& communicator, const Task& task);
    StreamWork(const StreamWork&) = delete;
    StreamWork& operator=(const StreamWork&) = delete;
    ~StreamWork() override;

    [[nodiscard]] Result<Progress> poll() override;
    [[nodiscard]] SharedEvent event() const override { return done_; }

private:
    friend class StreamCommunicator;

    enum class Stage { waits, called, enqueued };

    [[nodiscard]] Progress advance();

    StreamCommunicator& communicator_;
    std::unique_ptr<Launch> launch_;
    std::vector<const DeviceEvent*> ready_;
    Stage stage_ = Stage::waits;
    cuda::QuietTurn::Turn turn_{nullptr, {}};  // while it is between `waits` and `enqueued`
    SharedEvent done_;                         // once enqueued
    bool is_complete_ = false;                 // as `look` has seen
};

}  // namespace hvd::coll::nccl
