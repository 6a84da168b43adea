// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/convert.hpp"

#include "runtime/c_api/structs.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hvd::rt {
namespace {

// No caller means more; without a limit a wrong number is a crash or takes all memory.
constexpr std::int32_t kMostDimensions = 255;
constexpr std::size_t kMostRequests = std::size_t{1} << 22;  // more tickets are never outstanding
constexpr std::size_t kUsualRequests = std::size_t{1} << 14;
constexpr std::size_t kMostRanks = std::size_t{1} << 20;

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

/// The dimensions as the caller means them. Errors: invalid_argument.
Status check_dimensions(const hvd_tensor& tensor) {
    if (tensor.ndim < 0 || tensor.ndim > kMostDimensions) {
        return invalid("a tensor of " + std::to_string(tensor.ndim) + " dimensions: 0 to " +
                       std::to_string(kMostDimensions) + " are possible");
    }
    if (tensor.ndim > 0 && tensor.shape == nullptr) {
        return invalid("a tensor of " + std::to_string(tensor.ndim) +
                       " dimensions without a shape");
    }
    return ok();
}

/// Reads the device of a tensor, if it is not on the host. Errors: invalid_argument.
Status read_place(const hvd_tensor& tensor, std::optional<coll::DevicePlace>& place) {
    HVD_TRY(const auto kind,
            read_enum("device type", tensor.device_type, coll::Device::Kind::cuda));
    if (kind == coll::Device::Kind::host) {
        return ok();
    }
    if (tensor.device_index < 0) {
        return invalid("device index " + std::to_string(tensor.device_index));
    }
    place = {.index = tensor.device_index, .stream = tensor.stream, .event = tensor.event};
    return ok();
}

/// Reads the tensor: its place on a device, and everything else into the signature.
Status read_tensor(const hvd_tensor& theirs,
                   Signature& signature,
                   std::optional<coll::DevicePlace>& place) {
    hvd_tensor copy;
    HVD_TRY(const auto* const known, abi::view(&theirs, theirs.struct_size, copy));
    const auto& tensor = *known;
    HVD_TRY_STATUS(check_dimensions(tensor));
    signature.shape.assign({tensor.shape, static_cast<std::size_t>(tensor.ndim)});
    HVD_TRY(signature.type, read_enum("dtype", tensor.dtype, coll::DataType::f64));
    HVD_TRY_STATUS(read_place(tensor, place));
    if (std::ranges::any_of(signature.shape, [](std::int64_t extent) { return extent < 0; })) {
        return invalid("shape " + describe(signature.shape) + " has a negative dimension");
    }
    if (tensor.strides != nullptr) {
        const std::span strides(tensor.strides, static_cast<std::size_t>(tensor.ndim));
        HVD_TRY(signature.strides, dense_strides(signature.shape, strides));
    }
    if (tensor.data == nullptr && element_count(signature.shape) != 0) {
        return invalid("no data");
    }
    return ok();
}

/// A join's tensor has a device and nothing else.
Status read_device_of_join(const hvd_tensor& theirs, std::optional<coll::DevicePlace>& place) {
    hvd_tensor copy;
    HVD_TRY(const auto* const tensor, abi::view(&theirs, theirs.struct_size, copy));
    if (tensor->data != nullptr || tensor->ndim != 0) {
        return invalid("the tensor of a join has no data and no dimensions, only a device");
    }
    return read_place(*tensor, place);
}

Status read_output(const hvd_request& raw, Request& request) {
    if (raw.out == nullptr) {
        return ok();
    }
    if (has_open_size(request.signature)) {
        return invalid(std::string(to_string(request.signature.op)) +
                       " allocates its output: `out` must be NULL");
    }
    request.out = static_cast<std::byte*>(raw.out->data);
    request.has_out = true;
    if (raw.out == raw.in && request.signature.op != coll::Op::reducescatter) {
        return ok();  // in place: it has been read
    }
    Signature out;
    std::optional<coll::DevicePlace> place;
    HVD_TRY_STATUS(read_tensor(*raw.out, out, place));
    if (place.has_value() != request.device.has_value() ||
        (place && place->index != request.device->index)) {
        return invalid("the output is on another device than the input");
    }
    const auto& in = request.signature;
    if (in.op == coll::Op::reducescatter && !out.shape.empty() && !in.shape.empty()) {
        // How many rows this rank gets depends on its process set: the engine compares.
        request.out_rows = std::exchange(out.shape.front(), in.shape.front());
    }
    if (out.shape != in.shape || out.type != in.type || out.strides != in.strides) {
        return invalid("the output has dtype " + std::string(to_string(out.type)) + " and shape " +
                       describe(out.shape) + ", the input " + std::string(to_string(in.type)) +
                       " and " + describe(in.shape) + " (and strides must be equal)");
    }
    return ok();
}

Status read_operation(const hvd_request& raw, Signature& signature) {
    if (raw.op == HVD_JOIN) {
        signature.kind = Kind::join;
        signature.type = coll::DataType::i32;
        return ok();
    }
    HVD_TRY(signature.op, read_enum("operation", raw.op, coll::Op::reducescatter));
    if (signature.op == coll::Op::allreduce || signature.op == coll::Op::reducescatter) {
        HVD_TRY(signature.reduce,
                read_enum("reduce operation", raw.reduce_op, coll::ReduceOp::adasum));
        signature.prescale = raw.prescale;
        signature.postscale = raw.postscale;
    }
    if (signature.op == coll::Op::broadcast) {
        signature.root = raw.root;
    }
    return ok();
}

Result<std::vector<std::int64_t>> read_splits(const hvd_request& raw, coll::Op op, int world_size) {
    if (raw.split_count == 0) {
        return std::vector<std::int64_t>{};
    }
    if (op != coll::Op::alltoall) {
        return invalid("splits are for alltoall, not for " + std::string(to_string(op)));
    }
    // More than any set has ranks are not even looked at.
    if (raw.splits == nullptr || raw.split_count > static_cast<std::size_t>(world_size)) {
        return invalid(std::to_string(raw.split_count) + " splits in a world of " +
                       std::to_string(world_size) +
                       (raw.splits == nullptr ? ", at no address" : ""));
    }
    return std::vector<std::int64_t>(raw.splits, raw.splits + raw.split_count);
}

Result<coll::Wire> read_wire(std::int32_t dtype) {
    switch (dtype) {
        case HVD_FLOAT16: return coll::Wire::f16;
        case HVD_BFLOAT16: return coll::Wire::bf16;
        default:
            return invalid("wire_dtype " + std::to_string(dtype) +
                           " is neither HVD_FLOAT16 nor HVD_BFLOAT16, nor 0 for the tensor's own");
    }
}

Status read_request(const hvd_request& raw, int world_size, Request& request) {
    HVD_TRY_STATUS(read_operation(raw, request.signature));
    auto& signature = request.signature;
    HVD_TRY(signature.splits, read_splits(raw, signature.op, world_size));
    if (raw.average_over < HVD_OVER_ALL || raw.average_over > HVD_OVER_CONTRIBUTING) {
        return invalid("average_over " + std::to_string(raw.average_over) + " is unknown");
    }
    signature.over_contributing = raw.average_over == HVD_OVER_CONTRIBUTING;
    request.process_set = raw.process_set;
    if (raw.wire_dtype != 0) {
        HVD_TRY(signature.wire, read_wire(raw.wire_dtype));
    }
    if (signature.kind == Kind::join || signature.op == coll::Op::barrier) {
        request.has_out = true;  // nothing to allocate
        if (signature.kind == Kind::join && raw.in != nullptr && raw.out == nullptr) {
            return read_device_of_join(*raw.in, request.device);
        }
        return raw.in == nullptr && raw.out == nullptr
                   ? ok()
                   : invalid("a barrier and a join have no tensors");
    }
    if (raw.in == nullptr) {
        return invalid("no input tensor");
    }
    HVD_TRY_STATUS(read_tensor(*raw.in, signature, request.device));
    request.in = static_cast<const std::byte*>(raw.in->data);
    return read_output(raw, request);
}

Result<std::vector<int>> read_ranks(const hvd_process_set& raw) {
    if (raw.ranks == nullptr || raw.count == 0 || raw.count > kMostRanks) {
        return invalid("hvd_process_set: " + std::to_string(raw.count) + " ranks" +
                       (raw.ranks == nullptr ? " at no address" : ""));
    }
    std::vector<int> ranks(raw.ranks, raw.ranks + raw.count);
    std::ranges::sort(ranks);
    if (ranks.front() < 0) {
        return invalid("hvd_process_set: rank " + std::to_string(ranks.front()));
    }
    if (const auto twice = std::ranges::adjacent_find(ranks); twice != ranks.end()) {
        return invalid("hvd_process_set: rank " + std::to_string(*twice) + " is named twice");
    }
    return ranks;
}

Result<std::vector<int>> read_process_set(const hvd_process_set* members, std::size_t size) {
    HVD_TRY(const auto raw, abi::read(members, size));
    return read_ranks(raw);
}

}  // namespace

Result<std::vector<Request>> read_requests(const hvd_request* requests,
                                           std::size_t count,
                                           int world_size) {
    if (requests == nullptr || count == 0) {
        return invalid("no requests");
    }
    if (count > kMostRequests) {
        return invalid(std::to_string(count) + " requests in one call: at most " +
                       std::to_string(kMostRequests) + " are possible");
    }
    const auto size = requests->struct_size;
    HVD_TRY_STATUS(abi::check_struct(requests, size));
    std::vector<Request> read;  // of usual calls all at once, of others as far as they are there
    read.reserve(std::min(count, kUsualRequests));
    for (std::size_t index = 0; index < count; ++index) {
        hvd_request copy;
        HVD_TRY(const auto* const known,
                abi::view(abi::element(requests, index, size), size, copy));
        const auto& raw = *known;
        if (raw.name == nullptr || *raw.name == '\0') {
            return invalid("a request without a name");
        }
        auto& request = read.emplace_back();
        request.name = raw.name;
        request.group = raw.group;
        if (auto filled = read_request(raw, world_size, request); !filled) {
            return std::move(filled).error().context("tensor '" + request.name + "'");
        }
    }
    return read;
}

Result<std::vector<int>> read_process_set(const hvd_process_set* members) {
    if (members == nullptr) {
        return invalid("no process set");
    }
    return read_process_set(members, members->struct_size);
}

Result<std::vector<std::vector<int>>> read_process_sets(const hvd_process_set* sets,
                                                        std::size_t count) {
    std::vector<std::vector<int>> read;
    if (count == 0) {
        return read;
    }
    if (sets == nullptr) {
        return invalid(std::to_string(count) + " process sets at no address");
    }
    const auto size = sets->struct_size;
    for (std::size_t index = 0; index < count; ++index) {
        HVD_TRY(auto set, read_process_set(abi::element(sets, index, size), size));
        read.push_back(std::move(set));
    }
    return read;
}

Status write_result(const Operation& operation, hvd_tensor* tensor) {
    if (tensor == nullptr) {
        return invalid("no tensor to fill");
    }
    const auto& signature = operation.signature;
    hvd_tensor result{};
    result.data = operation.out;
    const auto& shape = shape_of_result(operation);
    result.shape = shape.data();
    result.strides = signature.strides.empty() ? nullptr : signature.strides.data();
    result.ndim = static_cast<std::int32_t>(shape.size());
    result.dtype = static_cast<std::int32_t>(signature.type);
    result.device_type = HVD_HOST;
    if (operation.staged != nullptr) {
        result.data = operation.staged->out;
        result.device_type = HVD_CUDA;
        result.device_index = operation.staged->place.index;
    }
    if (operation.on_device != nullptr) {
        result.device_type = HVD_CUDA;
        result.device_index = operation.on_device->place.index;
    }
    return abi::write(result, tensor);
}

}  // namespace hvd::rt
