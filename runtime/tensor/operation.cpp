// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/operation.hpp"

#include <limits>
#include <new>
#include <string>

namespace hvd::rt {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

void AlignedFree::operator()(std::byte* memory) const noexcept {
    ::operator delete (memory, std::align_val_t{kAlignment});
}

OwnedBytes allocate_aligned(std::size_t bytes) {
    if (bytes == 0) {
        return nullptr;
    }
    if (bytes > std::numeric_limits<std::ptrdiff_t>::max() - kAlignment) {
        throw std::bad_alloc();  // rounded up to the alignment, it would be a few bytes
    }
    return OwnedBytes(
        static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment})));
}

const Shape& shape_of_result(const Operation& operation) noexcept {
    return keeps_shape(operation.signature) ? operation.signature.shape : operation.result_shape;
}

Error not_finished(const Error& cause, const Operation& operation) {
    if (operation.name == nullptr) {
        return cause;  // of a rank that has joined
    }
    return {cause.code, cause.message + "; '" + operation.name->text + "' (" +
                            describe_operation(operation.signature) + ") was not finished"};
}

}  // namespace hvd::rt
