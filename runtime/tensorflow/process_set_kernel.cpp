// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensorflow/process_set_kernel.hpp"

#include "runtime/include/hvd/hvd.h"
#include "runtime/tensorflow/conversion.hpp"
#include "runtime/tensorflow/topology_kernel.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace hvd::tf {
namespace {

constexpr std::int32_t kNoWorld = -1;
constexpr std::int32_t kNoSuchSet = -3;

struct ProcessSetId {
    std::int32_t value;
};

hvd_status read_members(hvd_context* world, const void* kernel, std::vector<std::int32_t>& ranks) {
    const std::int32_t id = static_cast<const ProcessSetId*>(kernel)->value;
    std::size_t count = 0;
    const hvd_status counted = hvd_process_set_ranks(world, id, nullptr, 0, &count);
    if (counted != HVD_OK) {
        return counted;
    }
    ranks.resize(count);
    return hvd_process_set_ranks(world, id, ranks.data(), ranks.size(), &count);
}

std::int32_t inclusion(const void* kernel) {
    hvd_context* const world = hvd_current();
    hvd_topology topology{};
    topology.struct_size = sizeof(hvd_topology);
    if (world == nullptr || hvd_topology_of(world, &topology) != HVD_OK) {
        return kNoWorld;
    }
    std::vector<std::int32_t> ranks;
    if (read_members(world, kernel, ranks) != HVD_OK) {
        return kNoSuchSet;
    }
    return std::find(ranks.begin(), ranks.end(), topology.rank) == ranks.end() ? 0 : 1;
}

}  // namespace

void* create_process_set_kernel(Construction* construction) {
    const StatusPtr status = make_status();
    std::int64_t id = 0;
    api().attr_int64(construction, "process_set_id", &id, status.get());
    if (!is_ok(status)) {
        api().construction_failure(construction, status.get());
        return nullptr;
    }
    return std::make_unique<ProcessSetId>(ProcessSetId{static_cast<std::int32_t>(id)}).release();
}

void destroy_process_set_kernel(void* kernel) {
    const std::unique_ptr<ProcessSetId> owner(static_cast<ProcessSetId*>(kernel));
}

void process_set_size(void* kernel, Context* context) {
    hvd_context* const world = hvd_current();
    std::vector<std::int32_t> ranks;
    const StatusPtr status = make_status();
    if (world == nullptr) {
        api().set_status(status.get(), Code::failed_precondition, kNotInitialized);
    } else if (const hvd_status found = read_members(world, kernel, ranks); found != HVD_OK) {
        set_failure(status.get(), found, hvd_last_error());
    } else {
        set_scalar_output(context, static_cast<std::int32_t>(ranks.size()), status.get());
    }
    if (!is_ok(status)) {
        api().context_failure(context, status.get());
    }
}

void process_set_included(void* kernel, Context* context) {
    const StatusPtr status = make_status();
    set_scalar_output(context, inclusion(kernel), status.get());
    if (!is_ok(status)) {
        api().context_failure(context, status.get());
    }
}

}  // namespace hvd::tf
