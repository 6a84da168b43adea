// SPDX-License-Identifier: Apache-2.0
//
// The stand-in's streams, events and host functions.
#include "collectives/cuda/driver.hpp"
#include "tests/support/gpu/driver_state.hpp"

// NOLINTBEGIN(performance-no-int-to-ptr): handles are numbers
namespace hvd::test::gpu {
namespace {

Scheduler::Id event_of(CUevent handle) {
    const auto id = reinterpret_cast<Scheduler::Id>(handle);
    return state().scheduler().has_event(id) ? id : 0;
}

CUresult fake_cuStreamCreateWithPriority(CUstream* stream, unsigned /*flags*/, int /*priority*/) {
    HVD_FAKE_BEGIN("cuStreamCreateWithPriority", Needs::context)
    *stream = reinterpret_cast<CUstream>(state().scheduler().make_stream());
    return CUDA_SUCCESS;
}

CUresult fake_cuStreamDestroy(CUstream stream) {
    HVD_FAKE_BEGIN("cuStreamDestroy", Needs::context)
    const auto id = reinterpret_cast<Scheduler::Id>(stream);
    return state().scheduler().drop_stream(id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult fake_cuStreamQuery(CUstream stream) {
    HVD_FAKE_BEGIN("cuStreamQuery", Needs::context)
    const auto id = state().stream(stream);
    return id == 0                           ? CUDA_ERROR_INVALID_HANDLE
           : state().scheduler().is_idle(id) ? CUDA_SUCCESS
                                             : CUDA_ERROR_NOT_READY;
}

CUresult fake_cuStreamSynchronize(CUstream stream) {
    HVD_FAKE_BEGIN("cuStreamSynchronize", Needs::context)
    const auto id = state().stream(stream);
    if (id == 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    state().scheduler().wait_idle(id);
    return CUDA_SUCCESS;
}

CUresult fake_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned /*flags*/) {
    HVD_FAKE_BEGIN("cuStreamWaitEvent", Needs::context)
    const auto id = state().stream(stream);
    if (id == 0 || event_of(event) == 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    state().scheduler().wait_for(id, event_of(event));
    return CUDA_SUCCESS;
}

CUresult fake_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    HVD_FAKE_BEGIN("cuStreamIsCapturing", Needs::context)
    *status = state().is_capturing(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                           : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult fake_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    HVD_FAKE_BEGIN("cuThreadExchangeStreamCaptureMode", Needs::init)
    thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::swap(current, *mode);
    return CUDA_SUCCESS;
}

CUresult fake_cuEventCreate(CUevent* event, unsigned /*flags*/) {
    HVD_FAKE_BEGIN("cuEventCreate", Needs::context)
    *event = reinterpret_cast<CUevent>(state().scheduler().make_event());
    return CUDA_SUCCESS;
}

CUresult fake_cuEventDestroy(CUevent event) {
    HVD_FAKE_BEGIN("cuEventDestroy", Needs::context)
    const auto id = reinterpret_cast<Scheduler::Id>(event);
    return state().scheduler().drop_event(id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult fake_cuEventQuery(CUevent event) {
    HVD_FAKE_BEGIN("cuEventQuery", Needs::context)
    const auto id = event_of(event);
    return id == 0                               ? CUDA_ERROR_INVALID_HANDLE
           : state().scheduler().is_complete(id) ? CUDA_SUCCESS
                                                 : CUDA_ERROR_NOT_READY;
}

CUresult fake_cuEventRecord(CUevent event, CUstream stream) {
    HVD_FAKE_BEGIN("cuEventRecord", Needs::context)
    const auto id = state().stream(stream);
    if (id == 0 || event_of(event) == 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    state().scheduler().record(event_of(event), id);
    return CUDA_SUCCESS;
}

CUresult fake_cuEventSynchronize(CUevent event) {
    HVD_FAKE_BEGIN("cuEventSynchronize", Needs::context)
    const auto id = event_of(event);
    if (id == 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    state().scheduler().wait_complete(id);
    return CUDA_SUCCESS;
}

CUresult fake_cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
    HVD_FAKE_BEGIN("cuLaunchHostFunc", Needs::context)
    const auto id = state().stream(stream);
    if (id == 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    state().scheduler().enqueue_host(id, [=](const Touch& /*touch*/) {
        function(data);
        return true;
    });
    return CUDA_SUCCESS;
}

}  // namespace

std::vector<DriverFunction> stream_functions() {
    return {
        HVD_FAKE_ROW(cuStreamCreateWithPriority, 5050),
        HVD_FAKE_ROW(cuStreamDestroy, 4000),
        HVD_FAKE_ROW(cuStreamQuery, 2000),
        HVD_FAKE_ROW(cuStreamSynchronize, 2000),
        HVD_FAKE_ROW(cuStreamWaitEvent, 3020),
        HVD_FAKE_ROW(cuStreamIsCapturing, 10000),
        HVD_FAKE_ROW(cuThreadExchangeStreamCaptureMode, 10010),
        HVD_FAKE_ROW(cuEventCreate, 2000),
        HVD_FAKE_ROW(cuEventDestroy, 4000),
        HVD_FAKE_ROW(cuEventQuery, 2000),
        HVD_FAKE_ROW(cuEventRecord, 2000),
        HVD_FAKE_ROW(cuEventSynchronize, 2000),
        HVD_FAKE_ROW(cuLaunchHostFunc, 10000),
    };
}

}  // namespace hvd::test::gpu
// NOLINTEND(performance-no-int-to-ptr)
