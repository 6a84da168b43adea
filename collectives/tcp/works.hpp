// SPDX-License-Identifier: Apache-2.0
//
// The schedules. All ranks choose the same one for a task; the state must outlive the Work.
#pragma once

#include "collectives/backend.hpp"
#include "collectives/tcp/exchange.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace hvd::coll::tcp {

/// What the tasks of one backend share.
struct State {
    explicit State(net::Mesh& the_mesh) : mesh(the_mesh), exchange(the_mesh) {}

    net::Mesh& mesh;
    Exchange exchange;
    std::vector<std::byte> scratch;
    std::optional<Error> cause;  // aborted
};

/// A Work made of steps.
class SteppedWork : public Work {
public:
    [[nodiscard]] Result<Progress> poll() final;

protected:
    explicit SteppedWork(State& state) : state_(state) {}

    /// Ends the last step and prepares the next one in the exchange. False when there is none.
    [[nodiscard]] virtual bool advance() = 0;

    [[nodiscard]] net::Mesh& mesh() noexcept { return state_.mesh; }
    [[nodiscard]] Exchange& exchange() noexcept { return state_.exchange; }
    [[nodiscard]] std::vector<std::byte>& scratch() noexcept { return state_.scratch; }

private:
    State& state_;
    bool in_step_ = false;
    bool is_over_ = false;
};

/// Allreduce of any size but 0.
[[nodiscard]] std::unique_ptr<Work> start_allreduce(State& state, const Task& task);

/// What only moves bytes.
[[nodiscard]] std::unique_ptr<Work> start_allgather(State& state, const Task& task);
[[nodiscard]] std::unique_ptr<Work> start_broadcast(State& state, const Task& task);
[[nodiscard]] std::unique_ptr<Work> start_barrier(State& state);

}  // namespace hvd::coll::tcp
