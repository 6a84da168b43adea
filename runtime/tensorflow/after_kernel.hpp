// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/tensorflow/tf_api.hpp"

namespace hvd::tf {

/// The compute function of HorovodAfter: output 0 is input 0, once all other inputs are there.
void pass_first_input(void* kernel, Context* context);

}  // namespace hvd::tf
