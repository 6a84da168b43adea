// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/enumerators.hpp"

#include "collectives/base/error.hpp"
#include "collectives/types.hpp"
#include "runtime/include/hvd/hvd.h"
#include "runtime/tensor/operation.hpp"

#include <algorithm>
#include <array>
#include <iterator>

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
    {"HVD_ALLTOALL", HVD_ALLTOALL},
    {"HVD_REDUCESCATTER", HVD_REDUCESCATTER},
    {"HVD_JOIN", HVD_JOIN},
    {"HVD_AVERAGE", HVD_AVERAGE},
    {"HVD_SUM", HVD_SUM},
    {"HVD_MIN", HVD_MIN},
    {"HVD_MAX", HVD_MAX},
    {"HVD_PRODUCT", HVD_PRODUCT},
    {"HVD_ADASUM", HVD_ADASUM},
    {"HVD_OVER_ALL", HVD_OVER_ALL},
    {"HVD_OVER_CONTRIBUTING", HVD_OVER_CONTRIBUTING},
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

}  // namespace

std::int32_t enum_value(std::string_view name) noexcept {
    const auto* found = std::ranges::find(kEnumerators, name, &NamedValue::name);
    return found == std::end(kEnumerators) ? -1 : found->value;
}

}  // namespace hvd::rt
