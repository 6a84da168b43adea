// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/carried.hpp"

#include <algorithm>

namespace hvd::rt {

std::size_t carried_bytes(const Signature& signature,
                          std::span<const std::int64_t> first_dims) noexcept {
    const bool is_adasum =
        signature.op == coll::Op::allreduce && signature.reduce == coll::ReduceOp::adasum;
    if (signature.op == coll::Op::alltoall || is_adasum) {
        return kNotCarried;
    }
    if (signature.op != coll::Op::allgather) {
        return byte_count(signature);
    }
    const auto most_rows = static_cast<std::size_t>(std::ranges::max(first_dims));
    return most_rows * row_elements(signature.shape) * coll::size_of(signature.type);
}

std::span<const std::byte> payload_of(const Operation& operation,
                                      const coll::ProcessSet& world) noexcept {
    const auto& signature = operation.signature;
    const bool gives_nothing =
        signature.op == coll::Op::barrier ||
        (signature.op == coll::Op::broadcast && signature.root != world.rank_at(world.place));
    return {operation.in, gives_nothing ? 0 : byte_count(signature)};
}

}  // namespace hvd::rt
