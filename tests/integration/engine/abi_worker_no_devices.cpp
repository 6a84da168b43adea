// SPDX-License-Identifier: Apache-2.0
//
// A build without CUDA refuses tensors of GPUs.
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"

namespace hvd::test {
namespace {

void refused() {
    auto world = hvd::init();
    require(hvd_feature_value(HVD_FEATURE_CUDA) == 0, "no GPUs");
    float value = 1;
    hvd_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    tensor.data = &value;
    tensor.dtype = HVD_FLOAT32;
    tensor.device_type = HVD_CUDA;
    hvd_request request{};
    request.struct_size = sizeof request;
    request.name = "x";
    request.in = &tensor;
    request.prescale = 1;
    request.postscale = 1;
    hvd_ticket ticket = 0;
    require(hvd_submit(world.context(), &request, 1, &ticket) == HVD_UNSUPPORTED, "refused");
    world.barrier();
}

}  // namespace

std::map<std::string, void (*)()> device_cases() {
    return {{"device_operations", refused},
            {"device_plan", refused},
            {"device_death", refused},
            {"device_failures", refused}};
}

}  // namespace hvd::test
