// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/reduction.hpp"

#include <catch2/catch.hpp>

namespace hvd::coll::nccl {

TEST_CASE("values that are rounded on the way are summed by NCCL, and averaged behind it") {
    const auto wire = GENERATE(Wire::f16, Wire::bf16);
    const auto type = GENERATE(DataType::f32, DataType::f64);
    const int size = GENERATE(1, 2, 4);
    const Task task{.reduce = GENERATE(ReduceOp::sum, ReduceOp::average),
                    .type = type,
                    .wire = wire,
                    .prescale = 2,
                    .postscale = 3};

    const auto reduction = plan_reduction(task, size);

    CHECK(reduction.op == ncclSum);
    CHECK(reduction.wire == wire_type(type, wire));
    CHECK(reduction.pack.from == type);
    CHECK(reduction.pack.to == reduction.wire);
    CHECK(reduction.pack.factor == 2);
    CHECK(reduction.pack.divisor == 1);
    CHECK(reduction.unpack.from == reduction.wire);
    CHECK(reduction.unpack.to == type);
    CHECK(reduction.unpack.factor == 3);
    CHECK(reduction.unpack.divisor == (task.reduce == ReduceOp::average ? size : 1));
    CHECK(cuda::pack_kernel(reduction.pack).has_value());
    CHECK(cuda::pack_kernel(reduction.unpack).has_value());
    CHECK_FALSE(reduction.is_plain());
}

TEST_CASE("an average that divides by fewer ranks divides by them behind NCCL") {
    const Task task{.reduce = ReduceOp::average, .wire = Wire::f16, .divisor = 3};

    CHECK(plan_reduction(task, 4).unpack.divisor == 3);
}

}  // namespace hvd::coll::nccl
