// SPDX-License-Identifier: Apache-2.0
//
// The stand-in for NCCL behaves as NCCL and finds the faults that it looks for.
#include "collectives/base/deadline.hpp"
#include "collectives/cuda/driver.hpp"
#include "collectives/cuda/shared_library.hpp"
#include "collectives/nccl/library.hpp"
#include "tests/support/file_store.hpp"
#include "tests/support/gpu/control.hpp"
#include "tests/support/gpu/nccl_control.hpp"
#include "tests/support/proc_group.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <thread>

#include <sched.h>
#include <unistd.h>

// NOLINTBEGIN(performance-no-int-to-ptr): CUDA has addresses as numbers
namespace hvd::test {
namespace {

using namespace std::chrono_literals;
using gpu::Control;
using gpu::NcclControl;

void expect(bool holds, const std::string& what) {
    if (!holds) {
        throw std::runtime_error(what);
    }
}

/// One rank and its device.
class Rank {
public:
    Rank(int rank, int size, coll::Store& store, int device = -1)
        : rank_(rank), size_(size), store_(store) {
        must(cu.cuInit(0));
        CUcontext context = nullptr;
        must(cu.cuDevicePrimaryCtxRetain(&context, device < 0 ? rank : device));
        must(cu.cuCtxPushCurrent(context));
    }

    static void must(CUresult result) { expect(result == CUDA_SUCCESS, "a call of CUDA failed"); }
    static void must(ncclResult_t result) {
        expect(result == ncclSuccess, "a call of NCCL failed: " + std::to_string(result));
    }

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }

    [[nodiscard]] CUstream stream() const {
        CUstream made = nullptr;
        must(cu.cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, 0));
        return made;
    }

    /// The communicator `name` of all ranks, begun but not ready.
    [[nodiscard]] ncclComm_t begin(const std::string& name,
                                   ncclResult_t expected = ncclInProgress) {
        ncclUniqueId id{};
        if (rank_ == 0) {
            must(nccl.ncclGetUniqueId(&id));
            expect(store_.put(name, std::as_bytes(std::span(id.internal))).has_value(), "no put");
        } else {
            const auto got = store_.get(name, Deadline::in(10s)).value();
            std::memcpy(id.internal, got.data(), got.size());
        }
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        ncclComm_t comm = nullptr;
        const auto result = nccl.ncclCommInitRankConfig(&comm, size_, id, rank_, &config);
        expect(result == expected, "a communicator begins with " + std::to_string(result));
        return comm;
    }

    [[nodiscard]] ncclResult_t error_of(ncclComm_t comm) const {
        auto error = ncclSuccess;
        must(nccl.ncclCommGetAsyncError(comm, &error));
        return error;
    }

    void finish(ncclComm_t comm) const {
        const auto deadline = Deadline::in(10s);
        while (error_of(comm) == ncclInProgress) {
            expect(!deadline.has_passed(), "NCCL does not come to an end");
            std::this_thread::yield();
        }
    }

    [[nodiscard]] ncclComm_t communicator(const std::string& name) {
        auto* const comm = begin(name);
        finish(comm);
        return comm;
    }

    void destroy(ncclComm_t comm) const {
        expect(nccl.ncclCommFinalize(comm) == ncclInProgress, "finalize blocks");
        finish(comm);
        must(nccl.ncclCommDestroy(comm));
    }

    /// Memory with `count` times this value.
    [[nodiscard]] float* values(std::size_t count, float value) const {
        CUdeviceptr memory = 0;
        must(cu.cuMemAlloc(&memory, count * sizeof(float)));
        auto* const floats = reinterpret_cast<float*>(memory);
        std::fill(floats, floats + count, value);
        return floats;
    }

    void check_clean() const {
        const auto violations = cuda->take_violations();
        expect(violations.empty(), violations.empty() ? "" : violations.front());
    }

    coll::cuda::Driver cu = coll::cuda::open_driver(HVD_FAKE_CUDA).value();
    coll::nccl::Library nccl =
        coll::nccl::open_library({.named = HVD_FAKE_NCCL, .folders = {}}).value();
    Control* cuda = reinterpret_cast<gpu::ControlFunction>(
        coll::cuda::find_symbol(coll::cuda::open_library(HVD_FAKE_CUDA).value(),
                                gpu::kControlSymbol))();
    NcclControl* control = reinterpret_cast<gpu::NcclControlFunction>(
        coll::cuda::find_symbol(coll::cuda::open_library(HVD_FAKE_NCCL).value(),
                                gpu::kNcclControlSymbol))();

private:
    int rank_;
    int size_;
    coll::Store& store_;
};

void run(int size, const std::function<void(Rank&)>& body) {
    const TempDir folder;
    const auto ends = run_ranks(size, [&](int number) {
        FileStore store(folder.path());
        Rank rank(number, size, store);
        body(rank);
        return 0;
    });
    CHECK(failures(ends) == "");
}

}  // namespace

TEST_CASE("stand-in for NCCL: a sum is that of all ranks, of any length and on any stream") {
    run(GENERATE(1, 2, 3, 4), [](Rank& rank) {
        rank.cuda->choose_order(static_cast<std::uint64_t>(rank.rank()) + 1);
        auto* const comm = rank.communicator("id");
        for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{200'000}}) {
            auto* const values = rank.values(count, static_cast<float>(rank.rank() + 1));
            const auto stream = rank.stream();
            const auto result =
                rank.nccl.ncclAllReduce(values, values, count, ncclFloat32, ncclSum, comm,
                                        reinterpret_cast<cudaStream_t>(stream));
            expect(result == (count == 1 ? ncclInProgress : ncclSuccess),
                   "only the first call connects");
            rank.finish(comm);
            Rank::must(rank.cu.cuStreamSynchronize(stream));
            const auto sum = static_cast<float>(rank.size() * (rank.size() + 1)) / 2;
            expect(values[0] == sum && values[count - 1] == sum, "a wrong sum");
        }
        rank.destroy(comm);
        rank.check_clean();
        expect(rank.control->leaks().empty(), "something is left");
    });
}

TEST_CASE("stand-in for NCCL: messages of a group go at the same time") {
    run(3, [](Rank& rank) {
        auto* const comm = rank.communicator("id");
        constexpr std::size_t kCount = 50'000;
        auto* const out = rank.values(3 * kCount, static_cast<float>(rank.rank()));
        auto* const in = rank.values(3 * kCount, -1);
        const auto stream = rank.stream();
        auto* const runtime_stream = reinterpret_cast<cudaStream_t>(stream);
        Rank::must(rank.nccl.ncclGroupStart());
        for (int peer = 0; peer < 3; ++peer) {
            const auto place = static_cast<std::size_t>(peer) * kCount;
            Rank::must(
                rank.nccl.ncclSend(out + place, kCount, ncclFloat32, peer, comm, runtime_stream));
            Rank::must(
                rank.nccl.ncclRecv(in + place, kCount, ncclFloat32, peer, comm, runtime_stream));
        }
        expect(rank.nccl.ncclGroupEnd() == ncclInProgress, "the first group connects");
        rank.finish(comm);
        Rank::must(rank.cu.cuStreamSynchronize(stream));
        for (std::size_t index = 0; index < 3 * kCount; ++index) {
            const auto sender = index / kCount;
            expect(in[index] == static_cast<float>(sender), "a message has wrong values");
        }
        rank.destroy(comm);
        rank.check_clean();
    });
}

TEST_CASE("stand-in for NCCL: communicators of a GPU in different orders never end") {
    run(2, [](Rank& rank) {
        auto* const first = rank.communicator("first");
        auto* const second = rank.communicator("second");
        auto* const values = rank.values(2, 1);
        const bool is_reversed = rank.rank() == 1;
        // Both are connected, one after the other.
        for (auto* const comm : {first, second}) {
            const auto stream = rank.stream();
            (void)rank.nccl.ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, comm,
                                          reinterpret_cast<cudaStream_t>(stream));
            rank.finish(comm);
            Rank::must(rank.cu.cuStreamSynchronize(stream));
        }
        const auto stream = rank.stream();
        for (auto* const comm : {is_reversed ? second : first, is_reversed ? first : second}) {
            Rank::must(rank.nccl.ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, comm,
                                               reinterpret_cast<cudaStream_t>(stream)));
        }
        const auto deadline = Deadline::in(100ms);
        while (!deadline.has_passed()) {
            expect(rank.cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY,
                   "collectives in different orders came to an end");
            ::sched_yield();
        }
        for (auto* const comm : {first, second}) {
            Rank::must(rank.nccl.ncclCommAbort(comm));
        }
        Rank::must(rank.cu.cuStreamSynchronize(stream));
    });
}

TEST_CASE("stand-in for NCCL: different collectives at the same time are found, and never end") {
    run(2, [](Rank& rank) {
        auto* const comm = rank.communicator("id");
        auto* const values = rank.values(2, 1);
        const auto stream = rank.stream();
        (void)rank.nccl.ncclAllReduce(values, values, rank.rank() == 0 ? 1 : 2, ncclFloat32,
                                      ncclSum, comm, reinterpret_cast<cudaStream_t>(stream));
        rank.finish(comm);
        const auto deadline = Deadline::in(100ms);
        while (!deadline.has_passed()) {
            expect(rank.cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY, "it ended");
            ::sched_yield();
        }
        Rank::must(rank.nccl.ncclCommAbort(comm));
        Rank::must(rank.cu.cuStreamSynchronize(stream));
        const auto violations = rank.cuda->take_violations();
        expect(violations.size() == 1 &&
                   violations.front().find("different collectives") != std::string::npos,
               "it is not found");
    });
}

TEST_CASE("stand-in for NCCL: memory that one rank has registered and the other not is found") {
    run(2, [](Rank& rank) {
        auto* const comm = rank.communicator("id");
        void* memory = nullptr;
        Rank::must(rank.nccl.ncclMemAlloc(&memory, sizeof(float)));
        *static_cast<float*>(memory) = 1;
        if (rank.rank() == 0) {
            void* handle = nullptr;
            Rank::must(rank.nccl.ncclCommRegister(comm, memory, sizeof(float), &handle));
        }
        const auto stream = rank.stream();
        (void)rank.nccl.ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, comm,
                                      reinterpret_cast<cudaStream_t>(stream));
        rank.finish(comm);
        const auto deadline = Deadline::in(100ms);
        while (!deadline.has_passed()) {
            expect(rank.cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY, "it ended");
            ::sched_yield();
        }
        Rank::must(rank.nccl.ncclCommAbort(comm));
        Rank::must(rank.cu.cuStreamSynchronize(stream));
        Rank::must(rank.nccl.ncclMemFree(memory));
        const auto violations = rank.cuda->take_violations();
        expect(violations.size() == 1 &&
                   violations.front().find("different collectives") != std::string::npos,
               "it is not found");
        expect(rank.control->leaks().empty(), "something is left");
    });
}

TEST_CASE("stand-in for NCCL: memory that stays registered is found, and what NCCL has not given") {
    run(1, [](Rank& rank) {
        auto* const comm = rank.begin("id");
        void* memory = nullptr;
        void* handle = nullptr;
        Rank::must(rank.nccl.ncclMemAlloc(&memory, 8));
        expect(rank.nccl.ncclCommRegister(comm, memory, 8, &handle) == ncclInvalidUsage,
               "the communicator is not there yet");
        rank.finish(comm);
        auto* const other = rank.values(1, 1);
        expect(rank.nccl.ncclCommRegister(comm, other, 4, &handle) == ncclInvalidArgument,
               "other memory is registered");
        Rank::must(rank.nccl.ncclCommRegister(comm, memory, 8, &handle));
        expect(rank.control->leaks().size() == 4, "what is there");
        Rank::must(rank.nccl.ncclMemFree(memory));
        rank.destroy(comm);
        const auto violations = rank.cuda->take_violations();
        expect(violations.size() == 4 &&
                   violations[2].find("freed while it is registered") != std::string::npos &&
                   violations[3].find("destroyed with memory registered") != std::string::npos,
               "not all is found");
    });
}

TEST_CASE("stand-in for NCCL: a dead peer is waited for until the communicator is aborted") {
    const TempDir folder;
    const auto ends = run_ranks(2, [&](int number) {
        FileStore store(folder.path());
        Rank rank(number, 2, store);
        auto* const comm = rank.communicator("id");
        if (number == 1) {
            ::_exit(7);
        }
        auto* const values = rank.values(1, 1);
        const auto stream = rank.stream();
        expect(rank.nccl.ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, comm,
                                       reinterpret_cast<cudaStream_t>(stream)) == ncclInProgress,
               "no connection is made");
        const auto quiet = Deadline::in(100ms);
        while (!quiet.has_passed()) {
            expect(rank.error_of(comm) == ncclInProgress, "it ends without its peer");
        }
        rank.control->notice_dead_peers(true);
        const auto deadline = Deadline::in(5s);
        while (rank.error_of(comm) != ncclRemoteError) {
            expect(!deadline.has_passed(), "the death is not noticed");
        }
        Rank::must(rank.nccl.ncclCommAbort(comm));
        Rank::must(rank.cu.cuStreamSynchronize(stream));
        return 0;
    });
    CHECK(ends[0].exit_code == 0);
    CHECK(ends[0].output == "");
    CHECK(ends[1].exit_code == 7);
}

TEST_CASE("stand-in for NCCL: a call while another is in progress is a violation") {
    run(1, [](Rank& rank) {
        auto* const comm = rank.begin("id");
        auto* const values = rank.values(1, 1);
        const auto result =
            rank.nccl.ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, comm, nullptr);
        expect(result == ncclInvalidUsage, "an unfinished communicator is used");
        const auto violations = rank.cuda->take_violations();
        expect(
            violations.size() == 1 && violations.front().find("in progress") != std::string::npos,
            "it is not found");
        Rank::must(rank.nccl.ncclCommAbort(comm));
    });
}

TEST_CASE("stand-in for NCCL: two ranks on one GPU are refused, and calls fail on demand") {
    const TempDir folder;
    const auto ends = run_ranks(2, [&](int number) {
        FileStore store(folder.path());
        Rank rank(number, 2, store, 3);
        if (number == 0) {
            rank.control->fail("ncclGetVersion", 0, ncclSystemError);
            int version = 0;
            expect(rank.nccl.ncclGetVersion(&version) == ncclSystemError, "it does not fail");
            Rank::must(rank.nccl.ncclGetVersion(&version));
            expect(version == 22805, "a wrong version");
        }
        ncclUniqueId id{};
        if (number == 0) {
            Rank::must(rank.nccl.ncclGetUniqueId(&id));
            expect(store.put("id", std::as_bytes(std::span(id.internal))).has_value(), "no put");
        } else {
            const auto got = store.get("id", Deadline::in(10s)).value();
            std::memcpy(id.internal, got.data(), got.size());
        }
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        ncclComm_t comm = nullptr;
        const auto result = rank.nccl.ncclCommInitRankConfig(&comm, 2, id, number, &config);
        const std::string key = "result" + std::to_string(number);
        const std::byte refused{static_cast<unsigned char>(result == ncclInvalidUsage ? 1 : 0)};
        expect(store.put(key, {&refused, 1}).has_value(), "no put");
        const auto other =
            store.get("result" + std::to_string(1 - number), Deadline::in(10s)).value();
        expect(refused == std::byte{1} || other.front() == std::byte{1}, "none is refused");
        return 0;
    });
    CHECK(failures(ends) == "");
}

}  // namespace hvd::test
// NOLINTEND(performance-no-int-to-ptr)
