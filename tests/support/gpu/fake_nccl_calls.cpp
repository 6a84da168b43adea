// SPDX-License-Identifier: Apache-2.0
//
// The functions that the stand-in for NCCL exports: collectives, messages and groups.
#include "tests/support/gpu/nccl_communicator.hpp"

#include <algorithm>
#include <utility>

#define EXPORTED __attribute__((visibility("default")))

namespace hvd::test::gpu {
namespace {

/// The calls of this thread since ncclGroupStart.
struct Group {
    int depth = 0;
    struct OfCommunicator {
        std::shared_ptr<CommunicatorState> comm;
        std::vector<CommunicatorState::Waiting> groups;
    };
    std::vector<OfCommunicator> communicators;

    void add(const std::shared_ptr<CommunicatorState>& comm,
             NcclOperation operation,
             CUstream stream) {
        auto found = std::ranges::find(communicators, comm, &OfCommunicator::comm);
        if (found == communicators.end()) {
            communicators.push_back({comm, {}});
            found = communicators.end() - 1;
        }
        auto& groups = found->groups;
        if (groups.empty()) {
            groups.push_back({{}, stream});
        } else if (groups.back().stream != stream) {
            nccl_state().cuda().report("a group has several streams of one communicator");
        }
        groups.back().operations.push_back(operation);
    }
};

Group& own_group() {
    thread_local Group group;
    return group;
}

ncclResult_t end_group() {
    auto result = ncclSuccess;
    for (auto& each : std::exchange(own_group().communicators, {})) {
        const auto started = nccl_state().start_group(each.comm, std::move(each.groups));
        result = started == ncclSuccess ? result : started;
    }
    return result;
}

bool is_known(const CommunicatorState& comm, NcclOperation& operation) {
    auto& reduction = operation.reduction;
    if (element_bytes(reduction.type) == 0 || operation.peer < 0 || operation.peer >= comm.ranks) {
        return false;
    }
    if (reduction.op >= ncclNumOps) {
        const auto factor = comm.factors.find(reduction.op);
        if (factor == comm.factors.end()) {
            return false;
        }
        reduction.factor = factor->second;
        reduction.op = ncclSum;
    }
    return true;
}

/// Adds a call to this thread's group, or issues it where none is open.
ncclResult_t call_nccl(ncclComm_t comm, NcclOperation operation, void* stream) {
    if (!is_known(*comm->state, operation)) {
        return ncclInvalidArgument;
    }
    operation.in_registered = comm->state->place_in_registered(operation.in);
    operation.out_registered = comm->state->place_in_registered(operation.out);
    auto& group = own_group();
    group.add(comm->state, operation, static_cast<CUstream>(stream));
    return group.depth == 0 ? end_group() : ncclSuccess;
}

}  // namespace
}  // namespace hvd::test::gpu

using hvd::test::gpu::Call;
using hvd::test::gpu::call_nccl;
using hvd::test::gpu::nccl_state;
using hvd::test::gpu::own_group;

// The first lines of every function.
#define HVD_FAKE_BEGIN(function)                               \
    if (const auto hvd_error = nccl_state().begin(function)) { \
        return *hvd_error;                                     \
    }

namespace {

const std::byte* bytes(const void* address) {
    return static_cast<const std::byte*>(address);
}

std::byte* bytes(void* address) {
    return static_cast<std::byte*>(address);
}

}  // namespace

extern "C" {

EXPORTED ncclResult_t ncclGroupStart() {
    HVD_FAKE_BEGIN("ncclGroupStart")
    ++own_group().depth;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclGroupEnd() {
    auto& group = own_group();
    if (const auto error = nccl_state().begin("ncclGroupEnd")) {
        group = {};  // a group that fails has ended, too
        return *error;
    }
    if (group.depth == 0) {
        return ncclInvalidUsage;
    }
    return --group.depth == 0 ? hvd::test::gpu::end_group() : ncclSuccess;
}

EXPORTED ncclResult_t ncclAllReduce(const void* sendbuff,
                                    void* recvbuff,
                                    size_t count,
                                    ncclDataType_t type,
                                    ncclRedOp_t op,
                                    ncclComm_t comm,
                                    cudaStream_t stream) {
    HVD_FAKE_BEGIN("ncclAllReduce")
    return call_nccl(
        comm, {Call::all_reduce, bytes(sendbuff), bytes(recvbuff), count, {type, op}, 0}, stream);
}

EXPORTED ncclResult_t ncclAllGather(const void* sendbuff,
                                    void* recvbuff,
                                    size_t count,
                                    ncclDataType_t type,
                                    ncclComm_t comm,
                                    cudaStream_t stream) {
    HVD_FAKE_BEGIN("ncclAllGather")
    return call_nccl(comm, {Call::all_gather, bytes(sendbuff), bytes(recvbuff), count, {type}, 0},
                     stream);
}

EXPORTED ncclResult_t ncclReduceScatter(const void* sendbuff,
                                        void* recvbuff,
                                        size_t count,
                                        ncclDataType_t type,
                                        ncclRedOp_t op,
                                        ncclComm_t comm,
                                        cudaStream_t stream) {
    HVD_FAKE_BEGIN("ncclReduceScatter")
    return call_nccl(comm,
                     {Call::reduce_scatter, bytes(sendbuff), bytes(recvbuff), count, {type, op}, 0},
                     stream);
}

EXPORTED ncclResult_t ncclBroadcast(const void* sendbuff,
                                    void* recvbuff,
                                    size_t count,
                                    ncclDataType_t type,
                                    int root,
                                    ncclComm_t comm,
                                    cudaStream_t stream) {
    HVD_FAKE_BEGIN("ncclBroadcast")
    return call_nccl(comm, {Call::broadcast, bytes(sendbuff), bytes(recvbuff), count, {type}, root},
                     stream);
}

EXPORTED ncclResult_t ncclReduce(const void* sendbuff,
                                 void* recvbuff,
                                 size_t count,
                                 ncclDataType_t type,
                                 ncclRedOp_t op,
                                 int root,
                                 ncclComm_t comm,
                                 cudaStream_t stream) {
    HVD_FAKE_BEGIN("ncclReduce")
    return call_nccl(
        comm, {Call::reduce, bytes(sendbuff), bytes(recvbuff), count, {type, op}, root}, stream);
}

EXPORTED ncclResult_t ncclSend(const void* sendbuff,
                               size_t count,
                               ncclDataType_t type,
                               int peer,
                               ncclComm_t comm,
                               cudaStream_t stream) {
    HVD_FAKE_BEGIN("ncclSend")
    return call_nccl(comm, {Call::send, bytes(sendbuff), nullptr, count, {type}, peer}, stream);
}

EXPORTED ncclResult_t ncclRecv(void* recvbuff,
                               size_t count,
                               ncclDataType_t type,
                               int peer,
                               ncclComm_t comm,
                               cudaStream_t stream) {
    HVD_FAKE_BEGIN("ncclRecv")
    return call_nccl(comm, {Call::recv, nullptr, bytes(recvbuff), count, {type}, peer}, stream);
}

}  // extern "C"
