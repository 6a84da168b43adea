// SPDX-License-Identifier: Apache-2.0
#include "collectives/done_work.hpp"
#include "collectives/host_backend.hpp"
#include "collectives/tcp/factory.hpp"
#include "collectives/tcp/works.hpp"

namespace hvd::coll::tcp {
namespace {

constexpr int kScore = 50;
constexpr std::size_t kFusionBytes = std::size_t{8} << 20;

class TcpCommunicator final : public HostCommunicator {
public:
    TcpCommunicator(const Backend& backend, net::Mesh& mesh)
        : HostCommunicator(backend), state_(mesh) {}

private:
    std::unique_ptr<Work> do_start(const Task& task) override {
        switch (task.op) {
            case Op::allreduce:
                if (input_bytes(task) == 0) {
                    return std::make_unique<DoneWork>();
                }
                return start_allreduce(state_, task);
            case Op::allgather: return start_allgather(state_, task);
            case Op::broadcast: return start_broadcast(state_, task);
            case Op::barrier: return start_barrier(state_);
            case Op::alltoall:
            case Op::reducescatter: break;
        }
        return nullptr;
    }

    void do_abort(const Error& cause) override {
        state_.cause = cause;
        state_.mesh.want_no_more();
    }

    State state_;
};

class TcpBackend final : public HostBackend {
public:
    explicit TcpBackend(net::Mesh& mesh)
        : HostBackend({.name = "tcp", .score = kScore, .fusion_bytes = kFusionBytes}),
          mesh_(mesh) {}

    [[nodiscard]] std::unique_ptr<Communicator> open(const ProcessSet&) override {
        return std::make_unique<TcpCommunicator>(*this, mesh_);
    }

private:
    [[nodiscard]] bool serves(const Task& task, const ProcessSet& set) const noexcept override {
        return set.id == 0 && task.op <= Op::barrier && task.reduce != ReduceOp::adasum;
    }

    net::Mesh& mesh_;
};

}  // namespace

Result<Work::Progress> SteppedWork::poll() {
    if (state_.cause) {
        return *state_.cause;
    }
    // Whoever sleeps does it in this reactor, or in one that watches it.
    state_.mesh.reactor().dispatch();
    while (!is_over_) {
        if (in_step_) {
            HVD_TRY(const bool is_step_over, state_.exchange.pump());
            if (!is_step_over) {
                return Progress::pending;
            }
        }
        in_step_ = advance();
        is_over_ = !in_step_;
    }
    return Progress::done;
}

std::unique_ptr<Backend> create(net::Mesh& mesh) {
    return std::make_unique<TcpBackend>(mesh);
}

}  // namespace hvd::coll::tcp
