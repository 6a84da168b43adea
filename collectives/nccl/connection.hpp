// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/cuda/gpu.hpp"
#include "collectives/nccl/library.hpp"

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

namespace hvd::coll::nccl {

/// One communicator of NCCL, whose calls do not block: each may go on after it has returned, and
/// the next one waits for that.
///
/// Thread: progress lock.
class Connection {
public:
    /// Begins to connect with the other members. Throws Exception. The references outlive the
    /// connection.
    Connection(const Library& library,
               const cuda::Gpu& gpu,
               const ncclUniqueId& id,
               int size,
               int place,
               std::chrono::milliseconds limit);
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Closes it, and aborts it where that takes longer than a second.
    ~Connection();

    /// Whether the last call has ended, so that the next one may come. Throws Exception where it,
    /// or what runs on the GPU, has failed, and where connecting takes too long.
    [[nodiscard]] bool is_ready();

    /// A step of its end in order; true once it has ended. Never blocks. A connection with a call
    /// in progress, or that has failed, is aborted.
    [[nodiscard]] bool close() noexcept;

    /// Ends what runs, also in kernels that wait for a peer that is gone.
    void abort() noexcept;

    /// Registers memory, which outlives the connection, for collectives without a copy. While
    /// the connection is ready and its GPU idle. Throws Exception.
    void register_memory(std::span<std::byte> memory);

    /// The memory that is registered.
    [[nodiscard]] std::span<std::byte> registered() const noexcept { return registered_; }

    /// For calls of NCCL while it is ready; `note` takes their results. Throws Exception.
    [[nodiscard]] ncclComm_t handle() const noexcept { return handle_; }
    [[nodiscard]] cudaStream_t stream() const noexcept {
        return reinterpret_cast<cudaStream_t>(gpu_.stream());
    }
    void note(ncclResult_t result, const char* what);

    /// Whether a call that was noted goes on, as far as it was asked.
    [[nodiscard]] bool is_in_progress() const noexcept { return is_in_progress_; }

    [[nodiscard]] const Library& library() const noexcept { return library_; }

private:
    void deregister_memory();

    const Library& library_;
    const cuda::Gpu& gpu_;
    ncclComm_t handle_ = nullptr;
    std::span<std::byte> registered_;
    void* registration_ = nullptr;  // of it; nullptr also where NCCL_LOCAL_REGISTER=0
    std::chrono::milliseconds limit_;
    Deadline connect_by_;  // for the communicator, then for its first collective
    bool is_connected_ = false;
    bool has_begun_ = false;  // the first collective
    bool has_run_ = false;    // the first collective, on the host's side
    bool is_in_progress_ = true;
    bool is_closing_ = false;
};

}  // namespace hvd::coll::nccl
