// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/host_backend.hpp"
#include "collectives/shm/set_arena.hpp"
#include "collectives/shm/shm_endpoint.hpp"

#include <cstddef>
#include <memory>
#include <optional>

namespace hvd::coll::shm {

class ShmCommunicator final : public HostCommunicator {
public:
    /// Of the world. `memory` outlives it.
    ShmCommunicator(const Backend& backend, HostMemory& memory);

    /// Of a set of ranks of this host.
    ShmCommunicator(const Backend& backend, HostMemory& memory, const ProcessSet& set);

private:
    std::unique_ptr<Work> do_start(const Task& task) override;
    void do_abort(const Error& cause) override { arena_.abort(cause); }
    [[nodiscard]] std::unique_ptr<Work> begin(const Task& task);
    [[nodiscard]] std::unique_ptr<Work> begin_long(const Task& task, std::size_t bytes);

    SetArena arena_;
    std::optional<ShmEndpoint> endpoint_;
};

}  // namespace hvd::coll::shm
