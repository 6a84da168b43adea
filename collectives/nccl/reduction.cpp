// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/reduction.hpp"

namespace hvd::coll::nccl {
namespace {

using enum DataType;

bool is_float(DataType type) noexcept {
    return type == f16 || type == bf16 || type == f32 || type == f64;
}

/// The type in which sums of averages and of scaled integers are exact, as far as there is one.
DataType widened(DataType type) noexcept {
    switch (type) {
        case i8:
        case i16: return i32;
        case u8:
        case u16: return u32;
        case i32: return i64;
        case u32: return u64;
        default: return type;
    }
}

DataType travelling_type(const Task& task) noexcept {
    if (task.wire != Wire::own) {
        return wire_type(task.type, task.wire);
    }
    if (task.type == i16 || task.type == u16) {
        return widened(task.type);
    }
    const bool is_changed =
        task.reduce == ReduceOp::average || task.prescale != 1 || task.postscale != 1;
    return is_changed ? widened(task.type) : task.type;
}

ncclRedOp_t plain_op(ReduceOp op, bool is_boolean) noexcept {
    switch (op) {
        case ReduceOp::sum: return is_boolean ? ncclMax : ncclSum;
        case ReduceOp::product: return is_boolean ? ncclMin : ncclProd;
        case ReduceOp::min: return ncclMin;
        case ReduceOp::max: return ncclMax;
        case ReduceOp::average:
        case ReduceOp::adasum:
        case ReduceOp::adasum_across_hosts: break;
    }
    return ncclSum;
}

}  // namespace

bool can_reduce(DataType type, ReduceOp op) noexcept {
    return op != ReduceOp::adasum_across_hosts && (op != ReduceOp::average || type != boolean);
}

Reduction plan_reduction(const Task& task, int size) noexcept {
    const auto wire = travelling_type(task);
    const bool has_factors = task.type != boolean;
    Reduction reduction{
        .op = plain_op(task.reduce, task.type == boolean),
        .wire = wire,
        .pack = {.from = task.type, .to = wire, .factor = has_factors ? task.prescale : 1},
        .unpack = {.from = wire, .to = task.type, .factor = has_factors ? task.postscale : 1}};
    if (task.reduce == ReduceOp::average) {
        const int divisor = task.divisor != 0 ? task.divisor : size;
        // With one rank NCCL 2.28.9 leaves out the last elements of an average of float64.
        if (size == 1 && divisor == 1) {
            return reduction;
        }
        if (is_float(task.type) && task.wire == Wire::own && divisor == size) {
            reduction.op = ncclAvg;
        } else {
            reduction.unpack.divisor = divisor;
        }
    }
    return reduction;
}

ncclDataType_t nccl_type(DataType type) noexcept {
    switch (type) {
        case i8: return ncclInt8;
        case boolean:
        case u8: return ncclUint8;
        case i32: return ncclInt32;
        case u32: return ncclUint32;
        case i64: return ncclInt64;
        case u64: return ncclUint64;
        case f16: return ncclFloat16;
        case bf16: return ncclBfloat16;
        case f32: return ncclFloat32;
        case f64: return ncclFloat64;
        case i16:
        case u16: break;
    }
    return ncclInt8;  // never asked for: 16 bits travel as 32
}

}  // namespace hvd::coll::nccl
