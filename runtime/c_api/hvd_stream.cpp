// SPDX-License-Identifier: Apache-2.0
//
// The C ABI's stream forms of waiting, and the health of the world. As in hvd.cpp there is no logic
// here.
#include "collectives/base/result.hpp"
#include "runtime/c_api/guarded.hpp"
#include "runtime/include/hvd/hvd.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

using hvd::Result;
using hvd::rt::Engine;
using hvd::rt::Operation;
using namespace hvd::rt::abi;  // NOLINT(google-build-using-namespace): the other half of this file

hvd_status hvd_health(hvd_context* context) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        return status_of(world->engine().health());
    });
}

hvd_status hvd_wait_stream(hvd_context* context,
                           hvd_ticket ticket,
                           void* stream,
                           int64_t timeout_ms) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(auto* const operation, find(context, ticket));
        return wait_in_world("hvd_wait_stream", context, [&](Engine& engine) {
            return engine.wait_on_stream({&operation, 1}, stream, deadline_in(timeout_ms));
        });
    });
}

hvd_status hvd_wait_all_stream(hvd_context* context,
                               const hvd_ticket* tickets,
                               size_t count,
                               void* stream,
                               int64_t timeout_ms) {
    return guarded([&]() -> Result<hvd_status> {
        if (tickets == nullptr || count == 0) {
            return invalid("hvd_wait_all_stream: no tickets");
        }
        std::vector<Operation*> operations;
        operations.reserve(count);
        for (const auto ticket : std::span(tickets, count)) {
            HVD_TRY(auto* const operation, find(context, ticket));
            operations.push_back(operation);
        }
        return wait_in_world("hvd_wait_all_stream", context, [&](Engine& engine) {
            return engine.wait_on_stream(operations, stream, deadline_in(timeout_ms));
        });
    });
}

hvd_status hvd_run_stream(hvd_context* context,
                          const hvd_request* requests,
                          size_t count,
                          hvd_ticket* tickets,
                          void* stream,
                          int64_t timeout_ms) {
    return guarded([&] {
        return run_in_world("hvd_run_stream", context, requests, count, tickets,
                            [=](Engine& engine, auto& read, auto& operations) {
                                return engine.run_on_stream(read, operations, stream,
                                                            deadline_in(timeout_ms));
                            });
    });
}

hvd_status hvd_release_stream(hvd_context* context, int32_t device_index, void* /*stream*/) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY_STATUS(checked(context));
        if (device_index < 0) {
            return invalid("hvd_release_stream: device " + std::to_string(device_index));
        }
        return HVD_OK;
    });
}
