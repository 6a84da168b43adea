// SPDX-License-Identifier: Apache-2.0
//
// The functions that the stand-in for NCCL exports: communicators.
#include "tests/support/gpu/nccl_communicator.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

// The first lines of every function.
#define HVD_FAKE_BEGIN(...)                                       \
    if (const auto hvd_error = nccl_state().begin(__VA_ARGS__)) { \
        return *hvd_error;                                        \
    }

using hvd::test::gpu::CommunicatorState;
using hvd::test::gpu::kMostRanks;
using hvd::test::gpu::nccl_state;
using hvd::test::gpu::Segment;
using Phase = CommunicatorState::Phase;

namespace {

constexpr int kUsualVersion = 22805;

/// Waits as NCCL does where its calls block.
ncclResult_t wait_for(const std::shared_ptr<CommunicatorState>& comm) {
    while (true) {
        const auto result = nccl_state().poll(comm);
        if (result != ncclInProgress) {
            return result;
        }
        std::this_thread::yield();
    }
}

int host_of_process() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it meanwhile
    const char* const host = std::getenv(hvd::test::gpu::kEnvNcclHost);
    return host == nullptr ? 0 : std::stoi(host);
}

ncclResult_t attach(CommunicatorState& comm) {
    auto& shared = **comm.segment;
    int none = 0;
    if (!shared.ranks.compare_exchange_strong(none, comm.ranks) && none != comm.ranks) {
        return ncclInvalidArgument;
    }
    auto& own = shared.areas[static_cast<std::size_t>(comm.rank)];
    if (own.pid != 0) {
        return ncclInvalidUsage;  // a rank is there twice
    }
    own.pid = ::getpid();
    own.host = host_of_process();
    own.device = comm.device + 1;
    for (int rank = 0; rank < comm.ranks; ++rank) {
        const auto& other = shared.areas[static_cast<std::size_t>(rank)];
        if (rank != comm.rank && other.device == comm.device + 1) {
            return ncclInvalidUsage;  // two ranks on one GPU
        }
        if (other.device != 0 && other.host != own.host) {
            return ncclSystemError;  // no network between them
        }
    }
    own.is_attached = 1;
    return ncclSuccess;
}

void forget(ncclComm_t comm) {
    for (const auto& each : comm->state->registrations) {
        nccl_state().count_registration(each->memory, -1);
    }
    Segment::release_id(comm->state->id);
    --nccl_state().communicators;
    delete comm;
}

}  // namespace

extern "C" {

EXPORTED ncclResult_t ncclGetVersion(int* version) {
    HVD_FAKE_BEGIN("ncclGetVersion")
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it meanwhile
    const char* const wanted = std::getenv(hvd::test::gpu::kEnvNcclVersion);
    *version = wanted == nullptr ? kUsualVersion : std::stoi(wanted);
    return ncclSuccess;
}

EXPORTED const char* ncclGetErrorString(ncclResult_t result) {
    return result == ncclRemoteError ? "remote process exited or there was a network error"
                                     : "an error of the stand-in";
}

EXPORTED const char* ncclGetLastError(ncclComm_t /*comm*/) {
    return "the stand-in's last words";
}

EXPORTED ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    HVD_FAKE_BEGIN("ncclGetUniqueId")
    const auto made = Segment::make_id();
    if (!made) {
        return ncclSystemError;
    }
    *id = *made;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm,
                                             int ranks,
                                             ncclUniqueId id,
                                             int rank,
                                             ncclConfig_t* config) {
    HVD_FAKE_BEGIN("ncclCommInitRankConfig", true)
    const int device = nccl_state().cuda().current_device();
    if (device < 0) {
        return ncclUnhandledCudaError;
    }
    if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks) {
        return ncclInvalidArgument;
    }
    auto state = std::make_shared<CommunicatorState>();
    state->segment = Segment::open(id);
    if (!state->segment) {
        return ncclSystemError;
    }
    state->id = id;
    state->rank = rank;
    state->ranks = ranks;
    state->device = device;
    state->is_blocking = config == nullptr || config->blocking != 0;
    if (const auto attached = attach(*state); attached != ncclSuccess) {
        return attached;
    }
    ++nccl_state().communicators;
    *comm = new ncclComm{state};
    return state->is_blocking ? wait_for(state) : ncclInProgress;
}

EXPORTED ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
    HVD_FAKE_BEGIN("ncclCommGetAsyncError")
    *error = nccl_state().poll(comm->state);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    HVD_FAKE_BEGIN("ncclCommFinalize")
    auto& state = *comm->state;
    if (state.phase != Phase::ready) {
        nccl_state().cuda().report("a communicator that is not ready is finalized");
        return ncclInvalidUsage;
    }
    (*state.segment)->areas[static_cast<std::size_t>(state.rank)].is_finalized = 1;
    state.phase = Phase::finalizing;
    return state.is_blocking ? wait_for(comm->state) : ncclInProgress;
}

EXPORTED ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    HVD_FAKE_BEGIN("ncclCommDestroy", true)
    if (comm->state->in_flight != 0) {
        nccl_state().cuda().report("a communicator is destroyed with a collective in flight");
    }
    if (!comm->state->registrations.empty()) {
        nccl_state().cuda().report("a communicator is destroyed with memory registered");
    }
    forget(comm);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommAbort(ncclComm_t comm) {
    HVD_FAKE_BEGIN("ncclCommAbort")
    comm->state->is_aborted = true;
    forget(comm);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommRegister(ncclComm_t comm, void* buff, size_t size, void** handle) {
    HVD_FAKE_BEGIN("ncclCommRegister", true)
    if (comm->state->phase != Phase::ready) {
        nccl_state().cuda().report("memory is registered while a call is in progress");
        return ncclInvalidUsage;
    }
    if (!nccl_state().is_allocated(buff, size)) {
        nccl_state().cuda().report("memory is registered that is not of ncclMemAlloc");
        return ncclInvalidArgument;
    }
    auto& registrations = comm->state->registrations;
    registrations.push_back(std::make_unique<CommunicatorState::Registration>(
        CommunicatorState::Registration{static_cast<const std::byte*>(buff), size}));
    nccl_state().count_registration(buff, 1);
    *handle = registrations.back().get();
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
    HVD_FAKE_BEGIN("ncclCommDeregister", true)
    auto& registrations = comm->state->registrations;
    const auto found =
        std::ranges::find(registrations, handle, [](const auto& each) { return each.get(); });
    if (found == registrations.end()) {
        nccl_state().cuda().report("what is not registered is deregistered");
        return ncclInvalidUsage;
    }
    nccl_state().count_registration((*found)->memory, -1);
    registrations.erase(found);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
    HVD_FAKE_BEGIN("ncclMemAlloc", true)
    if (nccl_state().cuda().current_device() < 0) {
        return ncclUnhandledCudaError;
    }
    *ptr = nccl_state().allocate(size);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclMemFree(void* ptr) {
    HVD_FAKE_BEGIN("ncclMemFree", true)
    nccl_state().free(ptr);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op,
                                               void* scalar,
                                               ncclDataType_t type,
                                               ncclScalarResidence_t residence,
                                               ncclComm_t comm) {
    HVD_FAKE_BEGIN("ncclRedOpCreatePreMulSum")
    if (residence != ncclScalarHostImmediate || (type != ncclFloat32 && type != ncclFloat64)) {
        return ncclInvalidArgument;  // the stand-in takes no others
    }
    auto& factors = comm->state->factors;
    const int number =
        ncclNumOps + (factors.empty() ? 0 : factors.rbegin()->first - ncclNumOps + 1);
    factors[number] = type == ncclFloat32 ? static_cast<double>(*static_cast<const float*>(scalar))
                                          : *static_cast<const double*>(scalar);
    *op = static_cast<ncclRedOp_t>(number);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
    HVD_FAKE_BEGIN("ncclRedOpDestroy")
    return comm->state->factors.erase(op) == 1 ? ncclSuccess : ncclInvalidArgument;
}

EXPORTED hvd::test::gpu::NcclControl* hvd_fake_nccl() {
    return &nccl_state();
}

}  // extern "C"
