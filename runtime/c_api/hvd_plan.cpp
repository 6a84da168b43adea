// SPDX-License-Identifier: Apache-2.0
//
// The C ABI's plans and memory. As in hvd.cpp there is no logic here.
#include "collectives/base/result.hpp"
#include "runtime/bootstrap/context.hpp"
#include "runtime/c_api/convert.hpp"
#include "runtime/c_api/guarded.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/include/hvd/hvd.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

using hvd::Result;
using hvd::rt::Engine;
using hvd::rt::TicketTable;
using namespace hvd::rt::abi;  // NOLINT(google-build-using-namespace): the other half of this file

struct hvd_plan {
    hvd::rt::Plan plan;
    bool was_started = false;
};

hvd_status hvd_plan_create(hvd_context* context,
                           const hvd_request* requests,
                           size_t count,
                           hvd_plan** plan) {
    return guarded([&]() -> Result<hvd_status> {
        if (plan == nullptr) {
            return invalid("hvd_plan_create: no place for the plan");
        }
        *plan = nullptr;
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        HVD_TRY(auto read, hvd::rt::read_requests(requests, count, world->topology().size));
        HVD_TRY(auto* const tickets, mine->tickets());
        auto made = std::make_unique<hvd_plan>();
        HVD_TRY(auto operations, tickets->create(read));
        if (auto possible = world->engine().check(operations); !possible) {
            (void)tickets->discard(operations);
            return std::move(possible).error();
        }
        made->plan = hvd::rt::make_plan(std::move(operations));
        *plan = made.release();
        return HVD_OK;
    });
}

hvd_status hvd_plan_start(hvd_context* context, hvd_plan* plan) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        if (plan == nullptr) {
            return invalid("hvd_plan_start: no plan");
        }
        HVD_TRY_STATUS(world->engine().start(plan->plan));
        plan->was_started = true;
        return HVD_OK;
    });
}

hvd_status hvd_plan_wait(hvd_context* context, hvd_plan* plan, int64_t timeout_ms) {
    return guarded([&]() -> Result<hvd_status> {
        if (plan == nullptr) {
            return invalid("hvd_plan_wait: no plan");
        }
        return wait_in_world("hvd_plan_wait", context, [&](Engine& engine) {
            return engine.wait(plan->plan.operations, deadline_in(timeout_ms));
        });
    });
}

hvd_status hvd_plan_wait_stream(hvd_context* context,
                                hvd_plan* plan,
                                void* stream,
                                int64_t timeout_ms) {
    return guarded([&]() -> Result<hvd_status> {
        if (plan == nullptr) {
            return invalid("hvd_plan_wait_stream: no plan");
        }
        return wait_in_world("hvd_plan_wait_stream", context, [&](Engine& engine) {
            return engine.wait_on_stream(plan->plan.operations, stream, deadline_in(timeout_ms));
        });
    });
}

hvd_status hvd_plan_run(hvd_context* context, hvd_plan* plan, int64_t timeout_ms) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY_STATUS(refuse_in_callback("hvd_plan_run"));
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        if (plan == nullptr) {
            return invalid("hvd_plan_run: no plan");
        }
        auto ran = world->engine().run(plan->plan, deadline_in(timeout_ms));
        // Refused, such as for a name that is pending already, it leaves its operations as they
        // were.
        const auto has_begun = [](const auto& operation) {
            return !TicketTable::is_done(*operation) || operation->failed;
        };
        plan->was_started = plan->was_started || ran.has_value() ||
                            std::ranges::any_of(plan->plan.operations, has_begun);
        return status_of(std::move(ran));
    });
}

hvd_status hvd_plan_result(hvd_context* context, hvd_plan* plan, size_t index, hvd_tensor* tensor) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY_STATUS(checked(context));
        if (plan == nullptr || index >= plan->plan.operations.size()) {
            return invalid("hvd_plan_result: no such operation");
        }
        const auto& operation = *plan->plan.operations[index];
        if (!plan->was_started || !TicketTable::is_done(operation) || operation.failed) {
            return invalid("hvd_plan_result: the operation has not ended with HVD_OK");
        }
        return status_of(hvd::rt::write_result(operation, tensor));
    });
}

hvd_status hvd_plan_free(hvd_context* context, hvd_plan* plan) {
    return guarded([&]() -> Result<hvd_status> {
        if (plan == nullptr) {
            return HVD_OK;
        }
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto* const tickets, mine->tickets());
        HVD_TRY_STATUS(tickets->discard(plan->plan.operations));
        delete plan;
        return HVD_OK;
    });
}

hvd_status hvd_alloc(hvd_context* context, size_t bytes, void** memory) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY_STATUS(checked(context));
        if (memory == nullptr) {
            return invalid("hvd_alloc: no place for the memory");
        }
        *memory = nullptr;
        *memory = hvd::rt::allocate_aligned(bytes).release();
        return HVD_OK;
    });
}

hvd_status hvd_free(hvd_context* context, void* memory) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY_STATUS(checked(context));
        const hvd::rt::OwnedBytes owner(static_cast<std::byte*>(memory));
        return HVD_OK;
    });
}
