// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensorflow/shapes.hpp"

#include <cstddef>
#include <cstdint>

namespace hvd::tf {
namespace {

constexpr auto kUnknown = static_cast<std::size_t>(-1);

// The last input of every collective op is "live", see ops.cpp.
std::int64_t tensors_of(ShapeContext* context) {
    return api().shape_num_inputs(context) - 1;
}

void same_shape_of(ShapeContext* context, int index, Status* status) {
    const ShapePtr shape(api().new_shape());
    api().shape_get_input(context, index, shape.get(), status);
    if (api().get_code(status) == Code::ok) {
        api().shape_set_output(context, index, shape.get(), status);
    }
}

void other_rows_of(ShapeContext* context, int index, Status* status) {
    const ShapePtr input(api().new_shape());
    api().shape_get_input(context, index, input.get(), status);
    if (api().get_code(status) != Code::ok) {
        return;
    }
    const bool known = api().shape_rank_known(context, input.get()) != 0;
    const std::int64_t rank = known ? api().shape_rank(context, input.get()) : 0;
    if (rank == 0) {  // unknown, or a scalar, which the kernel refuses with a sentence
        api().shape_set_output(context, index, ShapePtr(api().new_shape()).get(), status);
        return;
    }
    const ShapePtr first(api().shape_vector(context, kUnknown));
    const ShapePtr others(api().new_shape());
    const ShapePtr output(api().new_shape());
    api().shape_subshape(context, input.get(), 1, rank, others.get(), status);
    if (api().get_code(status) == Code::ok) {
        api().shape_concatenate(context, first.get(), others.get(), output.get(), status);
    }
    if (api().get_code(status) == Code::ok) {
        api().shape_set_output(context, index, output.get(), status);
    }
}

}  // namespace

void same_shapes(ShapeContext* context, Status* status) {
    const std::int64_t tensors = tensors_of(context);
    for (int i = 0; i < tensors && api().get_code(status) == Code::ok; ++i) {
        same_shape_of(context, i, status);
    }
}

void other_rows(ShapeContext* context, Status* status) {
    const std::int64_t tensors = tensors_of(context);
    for (int i = 0; i < tensors && api().get_code(status) == Code::ok; ++i) {
        other_rows_of(context, i, status);
    }
}

void alltoall_shapes(ShapeContext* context, Status* status) {
    other_rows_of(context, 0, status);
    if (api().get_code(status) == Code::ok) {
        const ShapePtr splits(api().shape_vector(context, kUnknown));
        api().shape_set_output(context, 1, splits.get(), status);
    }
}

void first_shape(ShapeContext* context, Status* status) {
    same_shape_of(context, 0, status);
}

void scalar_shape(ShapeContext* context, Status* status) {
    const ShapePtr shape(api().shape_scalar(context));
    api().shape_set_output(context, 0, shape.get(), status);
}

}  // namespace hvd::tf
