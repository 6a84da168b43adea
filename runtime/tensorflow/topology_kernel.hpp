// SPDX-License-Identifier: Apache-2.0
//
// rank, size and their local forms as values of a graph, read when the step runs.
#pragma once

#include "runtime/include/hvd/hvd.h"
#include "runtime/tensorflow/tf_api.hpp"

#include <cstdint>

namespace hvd::tf {

using TopologyField = int32_t hvd_topology::*;

/// Sets output 0 to a number, unless `status` says why not.
void set_scalar_output(Context* context, std::int32_t value, Status* status);

/// Sets output 0 to `field` of the world, or fails where there is none.
void set_topology_output(Context* context, TopologyField field);

/// The compute function of the op that answers with `kField`.
template <TopologyField kField>
void topology_value(void* /*kernel*/, Context* context) {
    set_topology_output(context, kField);
}

}  // namespace hvd::tf
