// SPDX-License-Identifier: Apache-2.0
//
// The size of a process set, and whether this rank is in it, as values of a graph that are read
// when the step runs. The set is an attribute of the op: its id.
#pragma once

#include "runtime/tensorflow/tf_api.hpp"

namespace hvd::tf {

void* create_process_set_kernel(Construction* construction);
void destroy_process_set_kernel(void* kernel);

/// Output 0 is the number of members. Fails where there is no world, or no such set.
void process_set_size(void* kernel, Context* context);

/// Output 0 is 1 for a member and 0 for another rank; -1 without a world, -3 without such a set, as
/// scripts of the original know it.
void process_set_included(void* kernel, Context* context);

}  // namespace hvd::tf
