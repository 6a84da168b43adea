// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/schedules.hpp"
#include "collectives/done_work.hpp"
#include "collectives/host_backend.hpp"
#include "collectives/mpi/factory.hpp"
#include "collectives/mpi/mpi_endpoint.hpp"
#include "collectives/mpi/works.hpp"

#include <utility>
#include <vector>

namespace hvd::coll::mpi {
namespace {

// Above all others of the CPU: it is there only where somebody asked for it.
constexpr int kScore = 200;
constexpr std::size_t kFusionBytes = std::size_t{8} << 20;

/// A set of ranks, or the world with what MPI's own collectives are not used for.
class SetCommunicator final : public HostCommunicator {
public:
    SetCommunicator(const Backend& backend, State& state, const ProcessSet& set)
        : HostCommunicator(backend), state_(state), endpoint_(state, set), hosts_(set.hosts) {}

private:
    std::unique_ptr<Work> do_start(const Task& task) override {
        return start_schedule(endpoint_, state_.scratch, task, hosts_);
    }
    void do_abort(const Error& cause) override { endpoint_.abort(cause); }

    State& state_;
    MpiEndpoint endpoint_;
    std::vector<int> hosts_;
};

class WorldCommunicator final : public HostCommunicator {
public:
    WorldCommunicator(const Backend& backend, State& state, const ProcessSet& set)
        : HostCommunicator(backend), state_(state), endpoint_(state, set), hosts_(set.hosts) {}

private:
    std::unique_ptr<Work> do_start(const Task& task) override {
        switch (task.op) {
            case Op::allreduce: return start_any_allreduce(task);
            case Op::allgather: return start_allgather(state_, task);
            case Op::broadcast: return start_broadcast(state_, task);
            case Op::barrier: return start_barrier(state_);
            case Op::alltoall:
            case Op::reducescatter: break;
        }
        return start_schedule(endpoint_, state_.scratch, task, hosts_);
    }

    [[nodiscard]] std::unique_ptr<Work> start_any_allreduce(const Task& task) {
        if (is_adasum(task.reduce)) {
            return start_schedule(endpoint_, state_.scratch, task, hosts_);
        }
        if (input_bytes(task) == 0) {
            return std::make_unique<DoneWork>();
        }
        return is_for_mpi_to_add(state_, task) ? start_half_allreduce(state_, task)
                                               : start_allreduce(state_, task);
    }

    void do_abort(const Error& cause) override {
        endpoint_.abort(cause);
        state_.cause = cause;
        state_.alarm.clear();
        // Where all ranks leave in order and nothing is on its way, MPI is as good as before.
        if (state_.communicator.is_in_flight() || cause.code != Errc::aborted) {
            state_.communicator.give_up();
        }
    }

    State& state_;
    MpiEndpoint endpoint_;
    std::vector<int> hosts_;
};

class MpiBackend final : public HostBackend {
public:
    MpiBackend(Communicator communicator, Reactor& reactor, SumOrder order)
        : HostBackend({.name = "mpi", .score = kScore, .fusion_bytes = kFusionBytes}),
          state_(std::move(communicator), reactor, order) {}

    [[nodiscard]] std::unique_ptr<coll::Communicator> open(const ProcessSet& set,
                                                           Device /*device*/) override {
        if (set.id == 0) {
            return std::make_unique<WorldCommunicator>(*this, state_, set);
        }
        return std::make_unique<SetCommunicator>(*this, state_, set);
    }

private:
    [[nodiscard]] bool serves(const Task&, const ProcessSet& set) const noexcept override {
        return set.size() > 1 || set.id == 0;
    }

    State state_;
};

}  // namespace

std::byte* StagingBuffer::need(std::size_t bytes) {
    if (memory_->size() < bytes) {
        *memory_ = std::vector<std::byte>(bytes);
    }
    return memory_->data();
}

State::~State() {
    if (communicator.is_in_flight()) {
        first.abandon();
        second.abandon();
    }
}

Result<Work::Progress> SteppedWork::poll() {
    if (state_.cause) {
        return *state_.cause;
    }
    while (!is_over_) {
        if (in_step_) {
            HVD_TRY(const bool is_step_over, state_.communicator.is_done());
            if (!is_step_over) {
                state_.alarm.set();
                return Progress::pending;
            }
        }
        HVD_TRY(in_step_, advance());
        is_over_ = !in_step_;
    }
    state_.alarm.clear();
    return Progress::done;
}

std::unique_ptr<Backend> create(Communicator communicator, Reactor& reactor, SumOrder order) {
    return std::make_unique<MpiBackend>(std::move(communicator), reactor, order);
}

}  // namespace hvd::coll::mpi
