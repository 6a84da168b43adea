// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensorflow/conversion.hpp"

#include <memory>

namespace hvd::tf {
namespace {

Code to_tf(hvd_status status) {
    switch (status) {
        case HVD_OK: return Code::ok;
        case HVD_INVALID_ARGUMENT: return Code::invalid_argument;
        case HVD_TIMED_OUT: return Code::deadline_exceeded;
        // Not "unavailable": in graphs TensorFlow makes an internal error of that.
        case HVD_UNAVAILABLE:
        case HVD_ABORTED: return Code::aborted;
        case HVD_MISMATCH: return Code::failed_precondition;
        case HVD_UNSUPPORTED: return Code::unimplemented;
        case HVD_IN_PROGRESS:
        case HVD_INTERNAL: break;
    }
    return Code::internal;
}

// One result that TensorFlow holds.
struct Lease {
    hvd_context* world;
    hvd_ticket ticket;
};

void end_lease(void* /*data*/, std::size_t /*bytes*/, void* argument) {
    const std::unique_ptr<Lease> lease(static_cast<Lease*>(argument));
    hvd_release(lease->world, lease->ticket);
}

}  // namespace

std::optional<hvd_dtype> to_hvd(DataType type) {
    switch (type) {
        case DataType::boolean: return HVD_BOOL;
        case DataType::uint8: return HVD_UINT8;
        case DataType::int8: return HVD_INT8;
        case DataType::uint16: return HVD_UINT16;
        case DataType::int16: return HVD_INT16;
        case DataType::uint32: return HVD_UINT32;
        case DataType::int32: return HVD_INT32;
        case DataType::uint64: return HVD_UINT64;
        case DataType::int64: return HVD_INT64;
        case DataType::float16: return HVD_FLOAT16;
        case DataType::bfloat16: return HVD_BFLOAT16;
        case DataType::float32: return HVD_FLOAT32;
        case DataType::float64: return HVD_FLOAT64;
    }
    return std::nullopt;  // a number that TensorFlow knows and hvd.h does not
}

std::size_t element_bytes(std::int32_t dtype) {
    switch (dtype) {
        case HVD_UINT16:
        case HVD_INT16:
        case HVD_FLOAT16:
        case HVD_BFLOAT16: return 2;
        case HVD_UINT32:
        case HVD_INT32:
        case HVD_FLOAT32: return 4;
        case HVD_UINT64:
        case HVD_INT64:
        case HVD_FLOAT64: return 8;
        default: return 1;
    }
}

std::vector<std::int64_t> shape_of(const Tensor* tensor) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(api().num_dims(tensor)));
    for (std::size_t d = 0; d < shape.size(); ++d) {
        shape[d] = api().dim(tensor, static_cast<int>(d));
    }
    return shape;
}

hvd_tensor describe(const Tensor* tensor, hvd_dtype dtype, const std::vector<std::int64_t>& shape) {
    hvd_tensor described{};
    described.struct_size = sizeof(hvd_tensor);
    described.data = api().tensor_data(tensor);
    described.shape = shape.data();
    described.ndim = static_cast<std::int32_t>(shape.size());
    described.dtype = dtype;
    described.device_type = HVD_HOST;
    return described;
}

// The first word tells a failure of a collective from one of TensorFlow's with the same code.
void set_failure(Status* status, hvd_status failure, const std::string& message) {
    api().set_status(status, to_tf(failure), ("Horovod: " + message).c_str());
}

TensorPtr hand_over(hvd_context* world, hvd_ticket ticket, DataType type, Status* status) {
    hvd_tensor result{};
    result.struct_size = sizeof(hvd_tensor);
    if (const hvd_status found = hvd_result(world, ticket, &result); found != HVD_OK) {
        set_failure(status, found, hvd_last_error());
        return nullptr;
    }
    const std::vector<std::int64_t> shape(result.shape, result.shape + result.ndim);
    std::size_t bytes = element_bytes(result.dtype);
    for (const std::int64_t extent : shape) {
        bytes *= static_cast<std::size_t>(extent);
    }
    auto lease = std::make_unique<Lease>(Lease{world, ticket});
    return TensorPtr(api().new_tensor(type, shape.data(), result.ndim, result.data, bytes,
                                      end_lease, lease.release()));
}

}  // namespace hvd::tf
