// SPDX-License-Identifier: Apache-2.0
//
// A build without the headers of CUDA and NCCL.
#include "collectives/nccl/factory.hpp"

namespace hvd::coll::nccl {

std::unique_ptr<Backend> create(DeviceTensors* /*devices*/,
                                Options /*options*/,  // NOLINT(performance-unnecessary-value-param)
                                Backend* /*across*/,
                                const Logger& /*log*/) {
    return nullptr;
}

}  // namespace hvd::coll::nccl
