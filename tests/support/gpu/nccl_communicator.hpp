// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/gpu/call_counter.hpp"
#include "tests/support/gpu/nccl_control.hpp"
#include "tests/support/gpu/nccl_operation.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace hvd::test::gpu {

/// One rank of a communicator. Threads: the caller's; the atomics also the one of the streams.
struct CommunicatorState {
    enum class Phase { starting, ready, connecting, busy, finalizing, finalized };

    std::unique_ptr<Segment> segment;
    ncclUniqueId id{};
    int rank = 0;
    int ranks = 0;
    int device = 0;
    bool is_blocking = true;
    bool is_connected = false;
    int groups = 0;
    Phase phase = Phase::starting;
    std::map<int, double> factors;  // by operation that ncclRedOpCreatePreMulSum has made

    /// Memory that is registered. Thread: the caller's.
    struct Registration {
        const std::byte* memory;
        std::size_t bytes;
    };
    std::vector<std::unique_ptr<Registration>> registrations;

    /// Where in registered memory the address is, from 1 on; 0: in none.
    [[nodiscard]] std::size_t place_in_registered(const std::byte* address) const;

    struct Waiting {
        std::vector<NcclOperation> operations;
        CUstream stream;
    };
    std::vector<Waiting> waiting;  // for the group that is in progress

    std::uint64_t rounds = 0;  // Thread: the streams'
    std::atomic<int> in_flight{0};
    std::atomic<bool> is_aborted{false};
};

/// The state that the functions of the stand-in for NCCL share; one for each process.
class NcclState final : public NcclControl {
public:
    NcclState();

    /// Begins a call: the error that it returns, if it is to return one. `may_synchronise`: it is
    /// a violation while a collective is in flight.
    [[nodiscard]] std::optional<ncclResult_t> begin(const char* function,
                                                    bool may_synchronise = false);

    [[nodiscard]] Control& cuda() { return *cuda_; }

    void fail(const std::string& function, int number, ncclResult_t result) override {
        calls_.fail(function, number, result);
    }
    void forgive() override { calls_.forgive(); }
    void delay(const std::string& function, std::chrono::microseconds time) override {
        calls_.delay(function, time);
    }
    [[nodiscard]] int calls(const std::string& function) const override {
        return calls_.calls(function);
    }
    void set_async_error(ncclResult_t error) override { async_error_ = error; }
    void notice_dead_peers(bool yes) override { notices_dead_peers_ = yes; }
    void be_slow_every(int groups) override { slow_every_ = groups; }
    [[nodiscard]] std::vector<std::string> leaks() const override;

    /// Enqueues a group; ncclInProgress where that takes longer.
    [[nodiscard]] ncclResult_t start_group(const std::shared_ptr<CommunicatorState>& comm,
                                           std::vector<CommunicatorState::Waiting> groups);

    /// Goes on with what is in progress; the communicator's asynchronous error.
    [[nodiscard]] ncclResult_t poll(const std::shared_ptr<CommunicatorState>& comm);

    /// Memory as ncclMemAlloc and ncclMemFree give and take it.
    [[nodiscard]] void* allocate(std::size_t bytes);
    void free(void* memory);
    [[nodiscard]] bool is_allocated(const void* memory, std::size_t bytes);

    /// Registrations that memory has, over all communicators.
    void count_registration(const void* memory, int change);

    std::atomic<int> communicators{0};

private:
    void enqueue(const std::shared_ptr<CommunicatorState>& comm);

    struct Block {
        std::size_t bytes = 0;
        int registrations = 0;
    };

    Control* cuda_;
    CallCounter<ncclResult_t> calls_;
    mutable std::mutex mutex_;
    std::map<const void*, Block> blocks_;  // guarded by mutex_
    std::atomic<ncclResult_t> async_error_{ncclSuccess};
    std::atomic<bool> notices_dead_peers_{false};
    std::atomic<int> slow_every_{0};
};

[[nodiscard]] NcclState& nccl_state();

}  // namespace hvd::test::gpu

struct ncclComm {
    std::shared_ptr<hvd::test::gpu::CommunicatorState> state;
};
