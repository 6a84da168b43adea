// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensorflow/topology_kernel.hpp"

namespace hvd::tf {

void set_scalar_output(Context* context, std::int32_t value, Status* status) {
    const TensorPtr output(api().allocate_output(context, 0, DataType::int32, nullptr, 0,
                                                 sizeof(std::int32_t), status));
    if (api().get_code(status) == Code::ok) {
        *static_cast<std::int32_t*>(api().tensor_data(output.get())) = value;
    }
}

void set_topology_output(Context* context, TopologyField field) {
    const StatusPtr status = make_status();
    hvd_topology topology{};
    topology.struct_size = sizeof(hvd_topology);
    hvd_context* const world = hvd_current();
    if (world == nullptr || hvd_topology_of(world, &topology) != HVD_OK) {
        api().set_status(status.get(), Code::failed_precondition, kNotInitialized);
    } else {
        set_scalar_output(context, topology.*field, status.get());
    }
    if (!is_ok(status)) {
        api().context_failure(context, status.get());
    }
}

}  // namespace hvd::tf
