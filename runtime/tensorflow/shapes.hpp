// SPDX-License-Identifier: Apache-2.0
//
// Shape functions: the outputs' shapes as far as a graph knows them before it runs.
#pragma once

#include "runtime/tensorflow/tf_api.hpp"

namespace hvd::tf {

/// Every output has the shape of the input in its place.
void same_shapes(ShapeContext* context, Status* status);

/// As same_shapes, but the first dimension is known to the step only: it depends on all ranks.
void other_rows(ShapeContext* context, Status* status);

/// Output 0 as by other_rows, output 1 has one number for each rank.
void alltoall_shapes(ShapeContext* context, Status* status);

/// Output 0 has the shape of input 0.
void first_shape(ShapeContext* context, Status* status);

void scalar_shape(ShapeContext* context, Status* status);

}  // namespace hvd::tf
