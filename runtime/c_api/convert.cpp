// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/convert.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

namespace hvd::rt {
namespace {

// Each pair of enumerations is one list, written twice for two languages.
static_assert(static_cast<int>(Errc::invalid_argument) + 1 == HVD_INVALID_ARGUMENT);
static_assert(static_cast<int>(Errc::unavailable) + 1 == HVD_UNAVAILABLE);
static_assert(static_cast<int>(Errc::timed_out) + 1 == HVD_TIMED_OUT);
static_assert(static_cast<int>(Errc::aborted) + 1 == HVD_ABORTED);
static_assert(static_cast<int>(Errc::mismatch) + 1 == HVD_MISMATCH);
static_assert(static_cast<int>(Errc::unsupported) + 1 == HVD_UNSUPPORTED);
static_assert(static_cast<int>(Errc::internal) + 1 == HVD_INTERNAL);
static_assert(static_cast<int>(coll::Op::allreduce) == HVD_ALLREDUCE);
static_assert(static_cast<int>(coll::Op::allgather) == HVD_ALLGATHER);
static_assert(static_cast<int>(coll::Op::broadcast) == HVD_BROADCAST);
static_assert(static_cast<int>(coll::Op::barrier) == HVD_BARRIER);
static_assert(static_cast<int>(coll::ReduceOp::average) == HVD_AVERAGE);
static_assert(static_cast<int>(coll::ReduceOp::sum) == HVD_SUM);
static_assert(static_cast<int>(coll::ReduceOp::min) == HVD_MIN);
static_assert(static_cast<int>(coll::ReduceOp::max) == HVD_MAX);
static_assert(static_cast<int>(coll::ReduceOp::product) == HVD_PRODUCT);
static_assert(static_cast<int>(coll::DataType::boolean) == HVD_BOOL);
static_assert(static_cast<int>(coll::DataType::u8) == HVD_UINT8);
static_assert(static_cast<int>(coll::DataType::i8) == HVD_INT8);
static_assert(static_cast<int>(coll::DataType::u16) == HVD_UINT16);
static_assert(static_cast<int>(coll::DataType::i16) == HVD_INT16);
static_assert(static_cast<int>(coll::DataType::u32) == HVD_UINT32);
static_assert(static_cast<int>(coll::DataType::i32) == HVD_INT32);
static_assert(static_cast<int>(coll::DataType::u64) == HVD_UINT64);
static_assert(static_cast<int>(coll::DataType::i64) == HVD_INT64);
static_assert(static_cast<int>(coll::DataType::f16) == HVD_FLOAT16);
static_assert(static_cast<int>(coll::DataType::bf16) == HVD_BFLOAT16);
static_assert(static_cast<int>(coll::DataType::f32) == HVD_FLOAT32);
static_assert(static_cast<int>(coll::DataType::f64) == HVD_FLOAT64);
static_assert(static_cast<int>(coll::Device::Kind::host) == HVD_HOST);
static_assert(static_cast<int>(coll::Device::Kind::cuda) == HVD_CUDA);

struct NamedValue {
    std::string_view name;
    std::int32_t value;
};

constexpr auto kEnumerators = std::to_array<NamedValue>({
    {"HVD_OK", HVD_OK},
    {"HVD_INVALID_ARGUMENT", HVD_INVALID_ARGUMENT},
    {"HVD_UNAVAILABLE", HVD_UNAVAILABLE},
    {"HVD_TIMED_OUT", HVD_TIMED_OUT},
    {"HVD_ABORTED", HVD_ABORTED},
    {"HVD_MISMATCH", HVD_MISMATCH},
    {"HVD_UNSUPPORTED", HVD_UNSUPPORTED},
    {"HVD_INTERNAL", HVD_INTERNAL},
    {"HVD_IN_PROGRESS", HVD_IN_PROGRESS},
    {"HVD_ALLREDUCE", HVD_ALLREDUCE},
    {"HVD_ALLGATHER", HVD_ALLGATHER},
    {"HVD_BROADCAST", HVD_BROADCAST},
    {"HVD_BARRIER", HVD_BARRIER},
    {"HVD_AVERAGE", HVD_AVERAGE},
    {"HVD_SUM", HVD_SUM},
    {"HVD_MIN", HVD_MIN},
    {"HVD_MAX", HVD_MAX},
    {"HVD_PRODUCT", HVD_PRODUCT},
    {"HVD_BOOL", HVD_BOOL},
    {"HVD_UINT8", HVD_UINT8},
    {"HVD_INT8", HVD_INT8},
    {"HVD_UINT16", HVD_UINT16},
    {"HVD_INT16", HVD_INT16},
    {"HVD_UINT32", HVD_UINT32},
    {"HVD_INT32", HVD_INT32},
    {"HVD_UINT64", HVD_UINT64},
    {"HVD_INT64", HVD_INT64},
    {"HVD_FLOAT16", HVD_FLOAT16},
    {"HVD_BFLOAT16", HVD_BFLOAT16},
    {"HVD_FLOAT32", HVD_FLOAT32},
    {"HVD_FLOAT64", HVD_FLOAT64},
    {"HVD_HOST", HVD_HOST},
    {"HVD_CUDA", HVD_CUDA},
    {"HVD_FEATURE_MPI", HVD_FEATURE_MPI},
    {"HVD_FEATURE_GLOO", HVD_FEATURE_GLOO},
    {"HVD_FEATURE_NCCL", HVD_FEATURE_NCCL},
    {"HVD_FEATURE_CUDA", HVD_FEATURE_CUDA},
    {"HVD_FEATURE_CCL", HVD_FEATURE_CCL},
    {"HVD_FEATURE_DDL", HVD_FEATURE_DDL},
    {"HVD_FEATURE_ROCM", HVD_FEATURE_ROCM},
    {"HVD_FEATURE_MPI_USED", HVD_FEATURE_MPI_USED},
    {"HVD_FEATURE_MPI_THREADS", HVD_FEATURE_MPI_THREADS},
    {"HVD_REPORT_EXCEPTION", HVD_REPORT_EXCEPTION},
    {"HVD_REPORT_PEER_LOST", HVD_REPORT_PEER_LOST},
    {"HVD_REPORT_VERSIONS", HVD_REPORT_VERSIONS},
});

Error invalid(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

/// A C enumerator as ours. Errors: invalid_argument.
template <class Enum>
Result<Enum> read_enum(std::string_view what, std::int32_t value, Enum last) {
    if (value < 0 || value > static_cast<std::int32_t>(last)) {
        return invalid(std::string(what) + " " + std::to_string(value) + " is unknown");
    }
    return static_cast<Enum>(value);
}

Status check_struct(const hvd_tensor& tensor) {
    if (tensor.struct_size < sizeof(hvd_tensor)) {
        return invalid("hvd_tensor.struct_size is " + std::to_string(tensor.struct_size) +
                       ", not sizeof(hvd_tensor)");
    }
    if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr)) {
        return invalid("a tensor of " + std::to_string(tensor.ndim) +
                       " dimensions without a shape");
    }
    return ok();
}

Shape read_shape(const hvd_tensor& tensor) {
    return {tensor.shape, tensor.shape + tensor.ndim};
}

/// Fills what the tensor says into the signature.
Status read_tensor(const hvd_tensor& tensor, Signature& signature) {
    HVD_TRY_STATUS(check_struct(tensor));
    signature.shape = read_shape(tensor);
    HVD_TRY(signature.type, read_enum("dtype", tensor.dtype, coll::DataType::f64));
    HVD_TRY(signature.device,
            read_enum("device type", tensor.device_type, coll::Device::Kind::cuda));
    if (signature.device != coll::Device::Kind::host) {
        return Error{Errc::unsupported,
                     "this version moves tensors in host memory only: copy the tensor to the CPU"};
    }
    if (std::ranges::any_of(signature.shape, [](std::int64_t extent) { return extent < 0; })) {
        return invalid("shape " + describe(signature.shape) + " has a negative dimension");
    }
    if (tensor.strides != nullptr) {
        const Shape strides(tensor.strides, tensor.strides + tensor.ndim);
        HVD_TRY(signature.strides, dense_strides(signature.shape, strides));
    }
    if (tensor.data == nullptr && element_count(signature.shape) != 0) {
        return invalid("no data");
    }
    return ok();
}

Status read_output(const hvd_request& raw, Request& request) {
    if (raw.out == nullptr) {
        return ok();
    }
    if (request.signature.op == coll::Op::allgather) {
        return invalid("allgather allocates its output: `out` must be NULL");
    }
    Signature out;
    HVD_TRY_STATUS(read_tensor(*raw.out, out));
    const auto& in = request.signature;
    if (out.shape != in.shape || out.type != in.type || out.strides != in.strides) {
        return invalid("the output has dtype " + std::string(to_string(out.type)) + " and shape " +
                       describe(out.shape) + ", the input " + std::string(to_string(in.type)) +
                       " and " + describe(in.shape) + " (and strides must be equal)");
    }
    request.out = static_cast<std::byte*>(raw.out->data);
    request.has_out = true;
    return ok();
}

Status read_request(const hvd_request& raw, int world_size, Request& request) {
    auto& signature = request.signature;
    HVD_TRY(signature.op, read_enum("operation", raw.op, coll::Op::barrier));
    if (raw.process_set != 0) {
        return Error{Errc::unsupported, "process set " + std::to_string(raw.process_set) +
                                            ": only 0, the world, exists in this version"};
    }
    if (signature.op == coll::Op::barrier) {
        if (raw.in != nullptr || raw.out != nullptr) {
            return invalid("a barrier has no tensors");
        }
        request.has_out = true;  // nothing to allocate
        return ok();
    }
    if (raw.in == nullptr) {
        return invalid("no input tensor");
    }
    HVD_TRY_STATUS(read_tensor(*raw.in, signature));
    request.in = static_cast<const std::byte*>(raw.in->data);
    if (signature.op == coll::Op::allreduce) {
        HVD_TRY(signature.reduce,
                read_enum("reduce operation", raw.reduce_op, coll::ReduceOp::product));
        signature.prescale = raw.prescale;
        signature.postscale = raw.postscale;
    }
    if (signature.op == coll::Op::broadcast) {
        signature.root = raw.root;
    }
    HVD_TRY_STATUS(read_output(raw, request));
    return check(signature, world_size);
}

}  // namespace

Result<std::vector<Request>> read_requests(const hvd_request* requests,
                                           std::size_t count,
                                           int world_size) {
    if (requests == nullptr || count == 0) {
        return invalid("no requests");
    }
    // The caller's array has the caller's element size, which a later version may exceed.
    const auto stride = requests->struct_size;
    if (stride < sizeof(hvd_request)) {
        return invalid("hvd_request.struct_size is " + std::to_string(stride) +
                       ", not sizeof(hvd_request)");
    }
    std::vector<Request> read(count);
    for (std::size_t index = 0; index < count; ++index) {
        const auto* raw = reinterpret_cast<const hvd_request*>(
            reinterpret_cast<const std::byte*>(requests) + index * stride);
        if (raw->name == nullptr || *raw->name == '\0') {
            return invalid("a request without a name");
        }
        read[index].name = raw->name;
        read[index].group = raw->group;
        if (auto filled = read_request(*raw, world_size, read[index]); !filled) {
            return std::move(filled).error().context("tensor '" + read[index].name + "'");
        }
    }
    return read;
}

Status write_result(const Operation& operation, hvd_tensor* tensor) {
    if (tensor == nullptr || tensor->struct_size < sizeof(hvd_tensor)) {
        return invalid("no tensor to fill, or its struct_size is not sizeof(hvd_tensor)");
    }
    const auto& signature = operation.signature;
    tensor->data = operation.out;
    tensor->shape = operation.result_shape.data();
    tensor->strides = signature.strides.empty() ? nullptr : signature.strides.data();
    tensor->ndim = static_cast<std::int32_t>(operation.result_shape.size());
    tensor->dtype = static_cast<std::int32_t>(signature.type);
    tensor->device_type = static_cast<std::int32_t>(signature.device);
    tensor->device_index = 0;
    tensor->stream = nullptr;
    return ok();
}

std::int32_t enum_value(std::string_view name) noexcept {
    const auto* found = std::ranges::find(kEnumerators, name, &NamedValue::name);
    return found == std::end(kEnumerators) ? -1 : found->value;
}

}  // namespace hvd::rt
