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
        if (extent != 0 && count > kMost / extent) {
            return false;
        }
        count *= extent;
    }
    return true;
}

}  // namespace

std::size_t element_count(std::span<const std::int64_t> shape) noexcept {
    std::size_t count = 1;
    for (const auto extent : shape) {
        count *= static_cast<std::size_t>(extent);
    }
    return count;
}

std::size_t byte_count(const Signature& signature) noexcept {
    return signature.op == coll::Op::barrier
               ? 0
               : element_count(signature.shape) * coll::size_of(signature.type);
}

Result<Shape> dense_strides(std::span<const std::int64_t> shape,
                            std::span<const std::int64_t> strides) {
    if (strides.empty() || element_count(shape) == 0) {
        return Shape{};
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
    return row_major ? Shape{} : Shape(strides.begin(), strides.end());
}

Status check(const Signature& signature, int size) {
    if (std::ranges::any_of(signature.shape, [](std::int64_t extent) { return extent < 0; })) {
        return invalid("shape " + describe(signature.shape) + " has a negative dimension");
    }
    if (!fits(signature.shape)) {
        return invalid("shape " + describe(signature.shape) + " is too large");
    }
    if (signature.op == coll::Op::allgather) {
        if (signature.shape.empty()) {
            return invalid("allgather joins the first dimension, but the tensor is a scalar");
        }
        if (!signature.strides.empty()) {
            return invalid("allgather needs a row-major tensor, not strides " +
                           describe(signature.strides));
        }
    }
    if (signature.op == coll::Op::broadcast && (signature.root < 0 || signature.root >= size)) {
        return invalid("root " + std::to_string(signature.root) + " is not a rank of a world of " +
                       std::to_string(size));
    }
    if (signature.op == coll::Op::allreduce && signature.type == coll::DataType::boolean &&
        signature.reduce == coll::ReduceOp::average) {
        return invalid("bool cannot be averaged: use sum (or), min (and), or another type");
    }
    if (!std::isfinite(signature.prescale) || !std::isfinite(signature.postscale)) {
        return invalid("prescale and postscale must be finite");
    }
    return ok();
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
