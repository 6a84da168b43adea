// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensorflow/ops.hpp"

#include "runtime/include/hvd/hvd.h"
#include "runtime/tensorflow/collective_kernel.hpp"
#include "runtime/tensorflow/tf_api.hpp"
#include "runtime/tensorflow/topology_kernel.hpp"

#include <array>
#include <cstddef>

namespace hvd::tf {
namespace {

using AsyncCompute = void (*)(void*, Context*, DoneCallback*);
using ShapeFunction = void (*)(ShapeContext*, Status*);

struct CollectiveOp {
    const char* name;
    bool is_grouped;
    void* (*create)(Construction*);
    AsyncCompute compute;
    void (*destroy)(void*);
    ShapeFunction shape;
};

constexpr const char* kKeep = "HorovodKeep";

struct TopologyOp {
    const char* name;
    void (*compute)(void*, Context*);
};

// Every output has the shape of the input in its place.
void same_shapes(ShapeContext* context, Status* status) {
    const std::int64_t tensors = api().shape_num_inputs(context) - 1;
    for (int i = 0; i < tensors && api().get_code(status) == Code::ok; ++i) {
        const ShapePtr shape(api().new_shape());
        api().shape_get_input(context, i, shape.get(), status);
        if (api().get_code(status) == Code::ok) {
            api().shape_set_output(context, i, shape.get(), status);
        }
    }
}

// The first dimension is the sum over the ranks, which only the step itself knows.
void gathered_shape(ShapeContext* context, int index, Status* status) {
    constexpr auto kUnknown = static_cast<std::size_t>(-1);
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

void gathered_shapes(ShapeContext* context, Status* status) {
    const std::int64_t tensors = api().shape_num_inputs(context) - 1;
    for (int i = 0; i < tensors && api().get_code(status) == Code::ok; ++i) {
        gathered_shape(context, i, status);
    }
}

void scalar_shape(ShapeContext* context, Status* status) {
    const ShapePtr shape(api().shape_scalar(context));
    api().shape_set_output(context, 0, shape.get(), status);
}

// One list of attributes for all: the kernel reads them all, whatever the op.
void define_collective(const CollectiveOp& op, Status* status) {
    OpBuilder* const builder = api().new_op_definition_builder(op.name);
    api().op_add_attr(builder, op.is_grouped ? "T: list(type)" : "T: type");
    api().op_add_attr(builder, "tensor_name: string = ''");
    api().op_add_attr(builder, "ignore_name_scope: bool = false");
    api().op_add_attr(builder, "reduce_op: int = 1");
    api().op_add_attr(builder, "root_rank: int = 0");
    api().op_add_attr(builder, "prescale_factor: string = '1'");
    api().op_add_attr(builder, "postscale_factor: string = '1'");
    api().op_add_attr(builder, "process_set_id: int = 0");
    // Different for every node of a graph, so that two collectives over equal inputs stay two on
    // every rank, whatever its inputs are.
    api().op_add_attr(builder, "node_id: int = 0");
    api().op_add_input(builder, op.is_grouped ? "tensors: T" : "tensor: T");
    // A collective is not a stateful op: those run one after another in a tf.function, and ranks
    // that reach them in different orders would wait for each other for ever. But a stateless op
    // of constants is run by the graph optimisers, once, instead of in every step. "live" is the
    // output of a stateful op, which nobody can fold; its value is not used.
    api().op_add_input(builder, "live: int32");
    api().op_add_output(builder, op.is_grouped ? "outputs: T" : "output: T");
    api().op_set_shape_function(builder, op.shape);
    api().register_op(builder, status);
    if (api().get_code(status) == Code::ok) {
        api().register_kernel(
            op.name,
            api().new_async_kernel_builder(op.name, "CPU", op.create, op.compute, op.destroy),
            status);
    }
}

void define_topology(const TopologyOp& op, Status* status) {
    OpBuilder* const builder = api().new_op_definition_builder(op.name);
    api().op_add_output(builder, "value: int32");
    api().op_set_stateful(builder, true);
    api().op_set_shape_function(builder, scalar_shape);
    api().register_op(builder, status);
    if (api().get_code(status) == Code::ok) {
        api().register_kernel(
            op.name, api().new_kernel_builder(op.name, "CPU", nullptr, op.compute, nullptr),
            status);
    }
}

// A collective whose result this rank does not use must run all the same, since other ranks may
// wait for it. Graph optimisers drop what only a control edge needs, so this op takes the result
// itself.
void define_keep(Status* status) {
    OpBuilder* const builder = api().new_op_definition_builder(kKeep);
    api().op_add_attr(builder, "T: type");
    api().op_add_input(builder, "tensor: T");
    api().op_set_stateful(builder, true);
    api().register_op(builder, status);
    if (api().get_code(status) == Code::ok) {
        const auto compute = [](void* /*kernel*/, Context* /*context*/) {};
        api().register_kernel(
            kKeep, api().new_kernel_builder(kKeep, "CPU", nullptr, compute, nullptr), status);
    }
}

template <hvd_op kOp>
constexpr CollectiveOp collective(const char* name, bool is_grouped, ShapeFunction shape) {
    using Kernel = Collective<kOp>;
    return {name, is_grouped, Kernel::create, Kernel::compute, Kernel::destroy, shape};
}

constexpr std::array kCollectives{
    collective<HVD_ALLREDUCE>("HorovodAllreduce", false, same_shapes),
    collective<HVD_ALLREDUCE>("HorovodGroupedAllreduce", true, same_shapes),
    collective<HVD_ALLGATHER>("HorovodAllgather", false, gathered_shapes),
    collective<HVD_ALLGATHER>("HorovodGroupedAllgather", true, gathered_shapes),
    collective<HVD_BROADCAST>("HorovodBroadcast", false, same_shapes),
    collective<HVD_BROADCAST>("HorovodGroupedBroadcast", true, same_shapes),
};

constexpr std::array kTopology{
    TopologyOp{"HorovodRank", topology_value<&hvd_topology::rank>},
    TopologyOp{"HorovodSize", topology_value<&hvd_topology::size>},
    TopologyOp{"HorovodLocalRank", topology_value<&hvd_topology::local_rank>},
    TopologyOp{"HorovodLocalSize", topology_value<&hvd_topology::local_size>},
};

}  // namespace

std::string register_ops() {
    const StatusPtr status = make_status();
    for (const CollectiveOp& op : kCollectives) {
        define_collective(op, status.get());
        if (!is_ok(status)) {
            return std::string(op.name) + ": " + api().message(status.get());
        }
    }
    for (const TopologyOp& op : kTopology) {
        define_topology(op, status.get());
        if (!is_ok(status)) {
            return std::string(op.name) + ": " + api().message(status.get());
        }
    }
    define_keep(status.get());
    return is_ok(status) ? "" : std::string(kKeep) + ": " + api().message(status.get());
}

}  // namespace hvd::tf
