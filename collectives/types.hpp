// SPDX-License-Identifier: Apache-2.0
//
// The values that cross the seam between the engine and the backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hvd::coll {

class DeviceEvent;

enum class Op : std::uint8_t {
    allreduce,
    allgather,
    broadcast,
    barrier,
    alltoall,
    reducescatter,
};

/// adasum_across_hosts: Adasum of the averages of each host's members.
enum class ReduceOp : std::uint8_t { average, sum, min, max, product, adasum, adasum_across_hosts };

[[nodiscard]] constexpr bool is_adasum(ReduceOp op) noexcept {
    return op == ReduceOp::adasum || op == ReduceOp::adasum_across_hosts;
}

enum class DataType : std::uint8_t {
    boolean,
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    u64,
    i64,
    f16,
    bf16,
    f32,
    f64,
};

inline constexpr int kDataTypes = 13;

/// How the values of a reduction travel: as they are in memory, or as numbers of 16 bits.
enum class Wire : std::uint8_t { own, f16, bf16 };

/// The type that travels.
[[nodiscard]] constexpr DataType wire_type(DataType type, Wire wire) noexcept {
    switch (wire) {
        case Wire::own: return type;
        case Wire::f16: return DataType::f16;
        case Wire::bf16: return DataType::bf16;
    }
    return type;
}

/// Bytes of one element.
[[nodiscard]] constexpr std::size_t size_of(DataType type) noexcept {
    switch (type) {
        case DataType::boolean:
        case DataType::u8:
        case DataType::i8: return 1;
        case DataType::u16:
        case DataType::i16:
        case DataType::f16:
        case DataType::bf16: return 2;
        case DataType::u32:
        case DataType::i32:
        case DataType::f32: return 4;
        case DataType::u64:
        case DataType::i64:
        case DataType::f64: return 8;
    }
    return 0;
}

/// Names for messages: "allreduce", "sum", "float32".
[[nodiscard]] std::string_view to_string(Op op) noexcept;
[[nodiscard]] std::string_view to_string(ReduceOp op) noexcept;
[[nodiscard]] std::string_view to_string(DataType type) noexcept;

/// Where memory is. index is the CUDA device; 0 on the host.
struct Device {
    enum class Kind : std::uint8_t { host, cuda };

    Kind kind = Kind::host;
    std::int32_t index = 0;

    [[nodiscard]] constexpr bool is_host() const noexcept { return kind == Kind::host; }

    friend bool operator==(const Device&, const Device&) = default;
};

/// The GPU of each member of a process set for one collective, by place. Members may have theirs by
/// different numbers.
using DeviceList = std::vector<std::int32_t>;

/// One tensor, or a part of one, as contiguous memory.
///
/// allreduce, broadcast: `in` and `out` hold `count` elements each and may be the same memory.
/// allgather      `in` holds `count` elements; `out` holds the elements of all members, in the
/// order
///                of their places. `counts[p]` is how many place p gives: counts[own] == count.
/// alltoall       `in` holds `count` elements. The first `send_counts[0]` of them go to place 0,
/// the
///                next `send_counts[1]` to place 1, and so on; what is left over goes nowhere.
///                `out` holds `counts[p]` elements from each place p, in the order of the places.
/// reducescatter  `in` holds `count` elements, of which place p gets the `counts[p]` that follow
///                those of the places before it. `out` holds counts[own]; it may be the memory of
///                `in` where these begin.
struct Segment {
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    std::size_t count = 0;
    std::vector<std::size_t> counts{};
    std::vector<std::size_t> send_counts{};
};

/// Segments of one task on a device, at most: the kernels' tables have room for as many.
inline constexpr std::size_t kMostOnDevice = 8192;

/// One collective over all members of a process set. Members that start a task together give the
/// same values in every field but the addresses (and, for allgather and alltoall, each segment's
/// own `count`, and for alltoall the counts: what place p sends to q is what q gets from p).
struct Task {
    Op op = Op::allreduce;
    ReduceOp reduce = ReduceOp::sum;
    DataType type = DataType::f32;
    /// Of sums and averages of f32 and f64. Inputs are rounded once they have been scaled; sums are
    /// divided and scaled once they are of `type` again.
    Wire wire = Wire::own;
    Device device{};
    double prescale = 1;   // applied to every input as it is read
    double postscale = 1;  // applied once, to the reduced value; average divides here too
    int root = 0;          // broadcast: the place in the set whose `in` everybody gets
    std::vector<Segment> segments{};
    int divisor = 0;  // average divides by it; 0: by the number of members
    /// On a device: after which the inputs are there. Valid until the Work is enqueued.
    std::vector<const DeviceEvent*> ready{};
};

/// Bytes that one rank puts in, as they travel.
[[nodiscard]] std::size_t input_bytes(const Task& task) noexcept;

}  // namespace hvd::coll
