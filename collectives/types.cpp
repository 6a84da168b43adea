// SPDX-License-Identifier: Apache-2.0
#include "collectives/types.hpp"

namespace hvd::coll {

std::string_view to_string(Op op) noexcept {
    switch (op) {
        case Op::allreduce: return "allreduce";
        case Op::allgather: return "allgather";
        case Op::broadcast: return "broadcast";
        case Op::barrier: return "barrier";
        case Op::alltoall: return "alltoall";
        case Op::reducescatter: return "reducescatter";
    }
    return "unknown operation";
}

std::string_view to_string(ReduceOp op) noexcept {
    switch (op) {
        case ReduceOp::average: return "average";
        case ReduceOp::sum: return "sum";
        case ReduceOp::min: return "min";
        case ReduceOp::max: return "max";
        case ReduceOp::product: return "product";
        case ReduceOp::adasum: return "adasum";
        case ReduceOp::adasum_across_hosts:
            return "adasum across hosts (HOROVOD_ADASUM_HIERARCHICAL=1)";
    }
    return "unknown reduction";
}

std::string_view to_string(DataType type) noexcept {
    switch (type) {
        case DataType::boolean: return "bool";
        case DataType::u8: return "uint8";
        case DataType::i8: return "int8";
        case DataType::u16: return "uint16";
        case DataType::i16: return "int16";
        case DataType::u32: return "uint32";
        case DataType::i32: return "int32";
        case DataType::u64: return "uint64";
        case DataType::i64: return "int64";
        case DataType::f16: return "float16";
        case DataType::bf16: return "bfloat16";
        case DataType::f32: return "float32";
        case DataType::f64: return "float64";
    }
    return "unknown type";
}

std::size_t input_bytes(const Task& task) noexcept {
    std::size_t elements = 0;
    for (const auto& segment : task.segments) {
        elements += segment.count;
    }
    return elements * size_of(wire_type(task.type, task.wire));
}

}  // namespace hvd::coll
