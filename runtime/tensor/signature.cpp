// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/signature.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace hvd::rt {
namespace {

Error invalid(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

/// Whether the product of the dimensions fits with room for any element size.
bool fits(std::span<const std::int64_t> shape) noexcept {
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max() / 16;
    std::int64_t count = 1;
    for (const auto extent : shape) {
        if (__builtin_mul_overflow(count, extent, &count) || count > kMost) {
            return false;
        }
    }
    return true;
}

/// For what moves parts of the first dimension.
Status check_rows(const Signature& signature) {
    if (signature.shape.empty()) {
        return invalid(std::string(to_string(signature.op)) +
                       " works along the first dimension, but the tensor is a scalar");
    }
    if (!signature.strides.empty()) {
        return invalid(std::string(to_string(signature.op)) +
                       " needs a row-major tensor, not strides " + describe(signature.strides));
    }
    return ok();
}

Status check_reduction(const Signature& signature) {
    using coll::DataType;
    if (signature.type == DataType::boolean && signature.reduce == coll::ReduceOp::average) {
        return invalid("bool cannot be averaged: use sum (or), min (and), or another type");
    }
    if (!coll::is_adasum(signature.reduce)) {
        return ok();
    }
    if (signature.op != coll::Op::allreduce) {
        return invalid("adasum is a way to allreduce: " + std::string(to_string(signature.op)) +
                       " takes average, sum, min, max or product");
    }
    const bool is_float = signature.type == DataType::f16 || signature.type == DataType::bf16 ||
                          signature.type == DataType::f32 || signature.type == DataType::f64;
    return is_float ? ok()
                    : invalid("adasum needs a floating-point tensor, not " +
                              std::string(to_string(signature.type)));
}

/// A tensor that has the type already travels as it is. Errors: invalid_argument.
Status complete_wire(Signature& signature) {
    using coll::DataType;
    const auto wire = wire_type(signature.type, signature.wire);
    const auto refusal = [&](std::string_view why) {
        return invalid("wire_dtype " + std::string(to_string(wire)) + ": " + std::string(why) +
                       "; leave it 0, the tensor's own dtype");
    };
    if (signature.kind != Kind::collective ||
        (signature.op != coll::Op::allreduce && signature.op != coll::Op::reducescatter)) {
        return refusal("only allreduce and reducescatter round values on the way, not " +
                       describe_operation(signature));
    }
    if (signature.reduce != coll::ReduceOp::sum && signature.reduce != coll::ReduceOp::average) {
        return refusal("only sum and average round values on the way, not " +
                       std::string(to_string(signature.reduce)));
    }
    if (signature.type == wire) {
        signature.wire = coll::Wire::own;
        return ok();
    }
    return signature.type == DataType::f32 || signature.type == DataType::f64
               ? ok()
               : refusal("only float32 and float64 are rounded on the way, not " +
                         std::string(to_string(signature.type)));
}

std::string describe_set(const coll::ProcessSet& set) {
    return set.id == 0 ? "a world of " + std::to_string(set.size())
                       : "process set " + std::to_string(set.id);
}

Status check_root(const Signature& signature, const coll::ProcessSet& set) {
    if (std::ranges::find(set.ranks, signature.root) == set.ranks.end()) {
        return invalid("root " + std::to_string(signature.root) + " is not a rank of " +
                       describe_set(set));
    }
    return ok();
}

Status complete_splits(Signature& signature, const coll::ProcessSet& set) {
    const auto rows = signature.shape.front();
    auto& splits = signature.splits;
    if (splits.empty()) {
        if (rows % set.size() != 0) {
            return invalid("alltoall without splits: the first dimension, " + std::to_string(rows) +
                           ", is not a multiple of the " + std::to_string(set.size()) +
                           " ranks of " + describe_set(set));
        }
        splits.assign(static_cast<std::size_t>(set.size()), rows / set.size());
        return ok();
    }
    if (splits.size() != static_cast<std::size_t>(set.size())) {
        return invalid("alltoall needs one split for each of the " + std::to_string(set.size()) +
                       " ranks of " + describe_set(set) + ", not " + std::to_string(splits.size()));
    }
    std::int64_t rest = rows;
    for (const auto split : splits) {
        if (split < 0) {
            return invalid("splits " + describe(splits) + " have a negative number of rows");
        }
        if (split > rest) {
            return invalid("splits " + describe(splits) +
                           " sum to more than the first dimension, " + std::to_string(rows));
        }
        rest -= split;
    }
    return ok();
}

}  // namespace

std::size_t element_count(std::span<const std::int64_t> shape) noexcept {
    std::size_t count = 1;
    for (const auto extent : shape) {
        count *= static_cast<std::size_t>(extent);
    }
    return count;
}

std::size_t row_elements(std::span<const std::int64_t> shape) noexcept {
    return shape.empty() ? 1 : element_count(shape.subspan(1));
}

bool has_tensor(const Signature& signature) noexcept {
    return signature.kind == Kind::collective && signature.op != coll::Op::barrier;
}

bool has_open_size(const Signature& signature) noexcept {
    return signature.kind == Kind::collective &&
           (signature.op == coll::Op::allgather || signature.op == coll::Op::alltoall);
}

bool keeps_shape(const Signature& signature) noexcept {
    return !has_open_size(signature) &&
           (signature.kind != Kind::collective || signature.op != coll::Op::reducescatter);
}

std::size_t byte_count(const Signature& signature) noexcept {
    return has_tensor(signature) ? element_count(signature.shape) * coll::size_of(signature.type)
                                 : 0;
}

std::size_t wire_byte_count(const Signature& signature) noexcept {
    return has_tensor(signature) ? element_count(signature.shape) *
                                       coll::size_of(wire_type(signature.type, signature.wire))
                                 : 0;
}

std::int64_t share_of_rows(std::int64_t rows, int place, int size) noexcept {
    return rows / size + (place < rows % size ? 1 : 0);
}

std::int64_t rows_before(std::int64_t rows, int place, int size) noexcept {
    return rows / size * place + std::min<std::int64_t>(place, rows % size);
}

Result<std::vector<std::int64_t>> dense_strides(std::span<const std::int64_t> shape,
                                                std::span<const std::int64_t> strides) {
    if (strides.empty() || element_count(shape) == 0) {
        return std::vector<std::int64_t>{};
    }
    // From the innermost dimension of the memory outwards, each stride must be what the dimensions
    // inside it fill.
    std::vector<std::size_t> order;
    for (std::size_t index = 0; index < shape.size(); ++index) {
        if (shape[index] != 1) {
            order.push_back(index);
        }
    }
    std::ranges::stable_sort(order,
                             [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
    std::int64_t expected = 1;
    for (const auto index : order) {
        if (strides[index] != expected) {
            return invalid("strides " + describe(strides) + " of shape " + describe(shape) +
                           " are not dense: make the tensor contiguous first");
        }
        expected *= shape[index];
    }
    const bool row_major = std::ranges::is_sorted(order, std::ranges::greater{});
    return row_major ? std::vector<std::int64_t>{}
                     : std::vector<std::int64_t>(strides.begin(), strides.end());
}

Status complete_signature(Signature& signature, const coll::ProcessSet& set) {
    if (std::ranges::any_of(signature.shape, [](std::int64_t extent) { return extent < 0; })) {
        return invalid("shape " + describe(signature.shape) + " has a negative dimension");
    }
    if (!fits(signature.shape)) {
        return invalid("shape " + describe(signature.shape) + " is too large");
    }
    if (!std::isfinite(signature.prescale) || !std::isfinite(signature.postscale)) {
        return invalid("prescale and postscale must be finite");
    }
    if (signature.wire != coll::Wire::own) {
        HVD_TRY_STATUS(complete_wire(signature));
    }
    if (signature.kind != Kind::collective) {
        return ok();
    }
    switch (signature.op) {
        case coll::Op::allreduce: return check_reduction(signature);
        case coll::Op::broadcast: return check_root(signature, set);
        case coll::Op::allgather: return check_rows(signature);
        case coll::Op::reducescatter:
            HVD_TRY_STATUS(check_rows(signature));
            return check_reduction(signature);
        case coll::Op::alltoall:
            HVD_TRY_STATUS(check_rows(signature));
            return complete_splits(signature, set);
        case coll::Op::barrier: return ok();
    }
    return ok();
}

std::string describe_operation(const Signature& signature) {
    switch (signature.kind) {
        case Kind::collective: return std::string(to_string(signature.op));
        case Kind::join: return "join";
        case Kind::add_process_set: return "adding a process set";
        case Kind::remove_process_set: return "removing a process set";
    }
    return "unknown";
}

std::string describe(std::span<const std::int64_t> shape) {
    std::vector<std::string> extents;
    extents.reserve(shape.size());
    for (const auto extent : shape) {
        extents.push_back(std::to_string(extent));
    }
    return "[" + join(extents, ", ") + "]";
}

}  // namespace hvd::rt
