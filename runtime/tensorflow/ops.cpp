// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensorflow/ops.hpp"

#include "runtime/include/hvd/hvd.h"
#include "runtime/tensorflow/after_kernel.hpp"
#include "runtime/tensorflow/collective_kernel.hpp"
#include "runtime/tensorflow/process_set_kernel.hpp"
#include "runtime/tensorflow/shapes.hpp"
#include "runtime/tensorflow/tf_api.hpp"
#include "runtime/tensorflow/topology_kernel.hpp"

#include <array>
#include <cstddef>

namespace hvd::tf {
namespace {

using Compute = void (*)(void*, Context*);
using AsyncCompute = void (*)(void*, Context*, DoneCallback*);
using ShapeFunction = void (*)(ShapeContext*, Status*);

// A collective over one tensor, or over a group of tensors that completes as a unit.
enum class Form { single, group };

struct CollectiveOp {
    const char* name;
    Form form;
    void* (*create)(Construction*);
    AsyncCompute compute;
    void (*destroy)(void*);
    ShapeFunction shape;
};

struct TopologyOp {
    const char* name;
    Compute compute;
};

bool is_fine(Status* status) {
    return api().get_code(status) == Code::ok;
}

// One list of attributes for all collectives: the kernel reads them all, whatever the op.
void add_collective_attributes(OpBuilder* builder) {
    for (const char* spec :
         {"tensor_name: string = ''", "ignore_name_scope: bool = false", "reduce_op: int = 1",
          "root_rank: int = 0", "prescale_factor: string = '1'", "postscale_factor: string = '1'",
          "process_set_id: int = 0",
          // Different for every node of a graph, so that two collectives over equal inputs stay
          // two on every rank, whatever its inputs are.
          "node_id: int = 0"}) {
        api().op_add_attr(builder, spec);
    }
}

// A collective is not a stateful op: those run one after another in a tf.function, and ranks that
// reach them in different orders would wait for each other for ever. But a stateless op of
// constants is run by the graph optimisers, once, instead of in every step. "live" is the output of
// a stateful op, which nobody can fold; its value is not used.
void define_collective(const CollectiveOp& op, Status* status) {
    const bool is_group = op.form == Form::group;
    OpBuilder* const builder = api().new_op_definition_builder(op.name);
    api().op_add_attr(builder, is_group ? "T: list(type)" : "T: type");
    add_collective_attributes(builder);
    api().op_add_input(builder, is_group ? "tensors: T" : "tensor: T");
    api().op_add_input(builder, "live: int32");
    api().op_add_output(builder, is_group ? "outputs: T" : "output: T");
    api().op_set_shape_function(builder, op.shape);
    api().register_op(builder, status);
    if (is_fine(status)) {
        api().register_kernel(
            op.name,
            api().new_async_kernel_builder(op.name, "CPU", op.create, op.compute, op.destroy),
            status);
    }
}

// An empty `splits` means equal shares.
void define_alltoall(const char* name, Status* status) {
    OpBuilder* const builder = api().new_op_definition_builder(name);
    api().op_add_attr(builder, "T: type");
    add_collective_attributes(builder);
    for (const char* input : {"tensor: T", "splits: int32", "live: int32"}) {
        api().op_add_input(builder, input);
    }
    api().op_add_output(builder, "output: T");
    api().op_add_output(builder, "received_splits: int32");
    api().op_set_shape_function(builder, alltoall_shapes);
    api().register_op(builder, status);
    if (is_fine(status)) {
        using Kernel = Collective<HVD_ALLTOALL>;
        api().register_kernel(name,
                              api().new_async_kernel_builder(name, "CPU", Kernel::create,
                                                             Kernel::compute, Kernel::destroy),
                              status);
    }
}

// Stateful, unlike the other collectives: it comes after everything that a tf.function does before
// it, of which the stateful HorovodKeep is a part.
void define_join(const char* name, Status* status) {
    OpBuilder* const builder = api().new_op_definition_builder(name);
    add_collective_attributes(builder);
    api().op_add_input(builder, "live: int32");
    api().op_add_output(builder, "last_rank: int32");
    api().op_set_stateful(builder, true);
    api().op_set_shape_function(builder, scalar_shape);
    api().register_op(builder, status);
    if (is_fine(status)) {
        using Kernel = Collective<HVD_JOIN>;
        api().register_kernel(name,
                              api().new_async_kernel_builder(name, "CPU", Kernel::create,
                                                             Kernel::compute, Kernel::destroy),
                              status);
    }
}

void define_topology(const TopologyOp& op, Status* status) {
    OpBuilder* const builder = api().new_op_definition_builder(op.name);
    api().op_add_output(builder, "value: int32");
    api().op_set_stateful(builder, true);
    api().op_set_shape_function(builder, scalar_shape);
    api().register_op(builder, status);
    if (is_fine(status)) {
        api().register_kernel(
            op.name, api().new_kernel_builder(op.name, "CPU", nullptr, op.compute, nullptr),
            status);
    }
}

void define_process_set_value(const TopologyOp& op, Status* status) {
    OpBuilder* const builder = api().new_op_definition_builder(op.name);
    api().op_add_attr(builder, "process_set_id: int = 0");
    api().op_add_output(builder, "value: int32");
    api().op_set_stateful(builder, true);
    api().op_set_shape_function(builder, scalar_shape);
    api().register_op(builder, status);
    if (is_fine(status)) {
        api().register_kernel(op.name,
                              api().new_kernel_builder(op.name, "CPU", create_process_set_kernel,
                                                       op.compute, destroy_process_set_kernel),
                              status);
    }
}

// A collective whose result this rank does not use must run all the same, since other ranks may
// wait for it. Graph optimisers drop what only a control edge needs, so these two ops take the
// result itself: HorovodKeep, stateful, in a tf.function, which runs all its stateful ops, and
// HorovodAfter, whose output is its first input, wherever a value is needed anyway.
void define_keep(const char* name, Status* status) {
    OpBuilder* const builder = api().new_op_definition_builder(name);
    api().op_add_attr(builder, "T: type");
    api().op_add_input(builder, "tensor: T");
    api().op_set_stateful(builder, true);
    api().register_op(builder, status);
    if (is_fine(status)) {
        const auto compute = [](void* /*kernel*/, Context* /*context*/) {};
        api().register_kernel(
            name, api().new_kernel_builder(name, "CPU", nullptr, compute, nullptr), status);
    }
}

void define_after(const char* name, Status* status) {
    OpBuilder* const builder = api().new_op_definition_builder(name);
    api().op_add_attr(builder, "T: type");
    api().op_add_attr(builder, "W: list(type)");
    api().op_add_input(builder, "value: T");
    api().op_add_input(builder, "waits: W");
    api().op_add_output(builder, "output: T");
    api().op_set_shape_function(builder, first_shape);
    api().register_op(builder, status);
    if (is_fine(status)) {
        api().register_kernel(
            name, api().new_kernel_builder(name, "CPU", nullptr, pass_first_input, nullptr),
            status);
    }
}

template <hvd_op kOp>
constexpr CollectiveOp collective(const char* name, Form form, ShapeFunction shape) {
    using Kernel = Collective<kOp>;
    return {name, form, Kernel::create, Kernel::compute, Kernel::destroy, shape};
}

constexpr std::array kCollectives{
    collective<HVD_ALLREDUCE>("HorovodAllreduce", Form::single, same_shapes),
    collective<HVD_ALLREDUCE>("HorovodGroupedAllreduce", Form::group, same_shapes),
    collective<HVD_ALLGATHER>("HorovodAllgather", Form::single, other_rows),
    collective<HVD_ALLGATHER>("HorovodGroupedAllgather", Form::group, other_rows),
    collective<HVD_BROADCAST>("HorovodBroadcast", Form::single, same_shapes),
    collective<HVD_BROADCAST>("HorovodGroupedBroadcast", Form::group, same_shapes),
    collective<HVD_REDUCESCATTER>("HorovodReducescatter", Form::single, other_rows),
    collective<HVD_REDUCESCATTER>("HorovodGroupedReducescatter", Form::group, other_rows),
};

constexpr std::array kTopology{
    TopologyOp{"HorovodRank", topology_value<&hvd_topology::rank>},
    TopologyOp{"HorovodLocalRank", topology_value<&hvd_topology::local_rank>},
    TopologyOp{"HorovodLocalSize", topology_value<&hvd_topology::local_size>},
};

constexpr std::array kProcessSetValues{
    TopologyOp{"HorovodSize", process_set_size},
    TopologyOp{"HorovodProcessSetIncluded", process_set_included},
};

struct SpecialOp {
    const char* name;
    void (*define)(const char*, Status*);
};

constexpr std::array kOthers{
    SpecialOp{"HorovodAlltoall", define_alltoall},
    SpecialOp{"HorovodJoin", define_join},
    SpecialOp{"HorovodKeep", define_keep},
    SpecialOp{"HorovodAfter", define_after},
};

// Stops at the first refusal, whose op it names.
class Registration final {
public:
    template <typename Ops, typename Define>
    void each(const Ops& ops, Define define) {
        for (const auto& op : ops) {
            if (failure_.empty()) {
                define(op, status_.get());
                failure_ = is_ok(status_)
                               ? ""
                               : std::string(op.name) + ": " + api().message(status_.get());
            }
        }
    }

    [[nodiscard]] const std::string& failure() const { return failure_; }

private:
    StatusPtr status_ = make_status();
    std::string failure_;
};

}  // namespace

std::string register_ops() {
    Registration registration;
    registration.each(kCollectives, define_collective);
    registration.each(kTopology, define_topology);
    registration.each(kProcessSetValues, define_process_set_value);
    registration.each(kOthers,
                      [](const SpecialOp& op, Status* status) { op.define(op.name, status); });
    return registration.failure();
}

}  // namespace hvd::tf
