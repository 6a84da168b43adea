// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensorflow/collective_kernel.hpp"

#include "runtime/tensorflow/flight.hpp"
#include "runtime/tensorflow/settings.hpp"

#include <optional>
#include <utility>

namespace hvd::tf {

template <hvd_op kOp>
void* Collective<kOp>::create(Construction* construction) {
    std::optional<Settings> settings = read_settings(construction);
    return settings ? std::make_unique<Settings>(*std::move(settings)).release() : nullptr;
}

template <hvd_op kOp>
void Collective<kOp>::compute(void* kernel, Context* context, DoneCallback* done) {
    // The copy comes first: `*done` dies when this function returns.
    Flight::start(kOp, *static_cast<const Settings*>(kernel), context, DoneCallback(*done));
}

template <hvd_op kOp>
void Collective<kOp>::destroy(void* kernel) {
    const std::unique_ptr<Settings> owner(static_cast<Settings*>(kernel));
}

template struct Collective<HVD_ALLREDUCE>;
template struct Collective<HVD_ALLGATHER>;
template struct Collective<HVD_BROADCAST>;
template struct Collective<HVD_ALLTOALL>;
template struct Collective<HVD_REDUCESCATTER>;
template struct Collective<HVD_JOIN>;

}  // namespace hvd::tf
