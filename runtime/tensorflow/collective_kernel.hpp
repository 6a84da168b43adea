// SPDX-License-Identifier: Apache-2.0
//
// The asynchronous kernels: a TensorFlow tensor goes in, hvd_submit takes it, and the engine's
// completion sets the output and runs TensorFlow's done callback. No thread of TensorFlow's pools
// waits meanwhile, so any number of collectives may be in flight, in any order.
#pragma once

#include "runtime/include/hvd/hvd.h"
#include "runtime/tensorflow/tf_api.hpp"

namespace hvd::tf {

/// The kernel of one node of a graph, or of one eager call site. `kOp` is fixed by the op's name;
/// single and grouped ops share the kernel: a group has several inputs.
template <hvd_op kOp>
struct Collective {
    static void* create(Construction* construction);
    static void compute(void* kernel, Context* context, DoneCallback* done);
    static void destroy(void* kernel);
};

extern template struct Collective<HVD_ALLREDUCE>;
extern template struct Collective<HVD_ALLGATHER>;
extern template struct Collective<HVD_BROADCAST>;
extern template struct Collective<HVD_ALLTOALL>;
extern template struct Collective<HVD_REDUCESCATTER>;
extern template struct Collective<HVD_JOIN>;

}  // namespace hvd::tf
