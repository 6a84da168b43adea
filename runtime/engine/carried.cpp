// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/carried.hpp"

#include <algorithm>
#include <numeric>

namespace hvd::rt {

namespace {

std::size_t row_bytes(const Signature& signature) noexcept {
    return row_elements(signature.shape) * coll::size_of(signature.type);
}

/// The largest number of rows that a rank sends. `sent` has, for each rank in turn, the rows for
/// each destination.
std::size_t most_rows_sent(std::span<const std::int64_t> sent, std::size_t ranks) noexcept {
    std::int64_t most = 0;
    for (std::size_t from = 0; from < sent.size(); from += ranks) {
        const auto row = sent.subspan(from, ranks);
        most = std::max(most, std::accumulate(row.begin(), row.end(), std::int64_t{0}));
    }
    return static_cast<std::size_t>(most);
}

}  // namespace

std::size_t carried_bytes(const Signature& signature,
                          std::span<const std::int64_t> first_dims) noexcept {
    if (signature.wire != coll::Wire::own) {
        return kNotCarried;
    }
    switch (signature.op) {
        case coll::Op::allreduce:
            return is_adasum(signature.reduce) ? kNotCarried : byte_count(signature);
        case coll::Op::allgather:
            return static_cast<std::size_t>(std::ranges::max(first_dims)) * row_bytes(signature);
        case coll::Op::alltoall:
            return most_rows_sent(first_dims, signature.splits.size()) * row_bytes(signature);
        case coll::Op::broadcast:
        case coll::Op::barrier:
        case coll::Op::reducescatter: break;
    }
    return byte_count(signature);
}

std::span<const std::byte> payload_of(const Operation& operation,
                                      const coll::ProcessSet& world) noexcept {
    const auto& signature = operation.signature;
    if (signature.op == coll::Op::alltoall) {
        const auto& splits = signature.splits;
        const auto rows = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
        return {operation.in, static_cast<std::size_t>(rows) * row_bytes(signature)};
    }
    const bool gives_nothing =
        signature.op == coll::Op::barrier ||
        (signature.op == coll::Op::broadcast && signature.root != world.rank_at(world.place));
    return {operation.in, gives_nothing ? 0 : byte_count(signature)};
}

bool reads_own_input(const Operation& operation) noexcept {
    return operation.signature.op == coll::Op::alltoall ||
           operation.signature.op == coll::Op::reducescatter;
}

OwnPart own_part_of(const Operation& operation, const coll::ProcessSet& world) noexcept {
    if (!reads_own_input(operation)) {
        return {};
    }
    const auto& signature = operation.signature;
    std::int64_t begin = 0;
    std::int64_t rows = 0;
    if (signature.op == coll::Op::alltoall) {
        const auto before =
            std::span(signature.splits).first(static_cast<std::size_t>(world.place));
        begin = std::accumulate(before.begin(), before.end(), std::int64_t{0});
        rows = signature.splits[before.size()];
    } else {
        begin = rows_before(signature.shape.front(), world.place, world.size());
        rows = share_of_rows(signature.shape.front(), world.place, world.size());
    }
    const auto bytes_of = [&](std::int64_t count) {
        return static_cast<std::uint32_t>(static_cast<std::size_t>(count) * row_bytes(signature));
    };
    return {.begin = bytes_of(begin), .end = bytes_of(begin + rows)};
}

void move_to_own_parts(const Operation& operation,
                       const coll::ProcessSet& world,
                       std::span<const std::byte*> inputs) noexcept {
    const auto ranks = inputs.size();
    const auto own = static_cast<std::size_t>(world.place);
    for (std::size_t from = 0; from < ranks; ++from) {
        const auto before = std::span(operation.first_dims).subspan(from * ranks, own);
        const auto rows = std::accumulate(before.begin(), before.end(), std::int64_t{0});
        inputs[from] += static_cast<std::size_t>(rows) * row_bytes(operation.signature);
    }
}

}  // namespace hvd::rt
