// SPDX-License-Identifier: Apache-2.0
//
// The frame of every function of the C ABI: how it gets its values, and how it returns a status.
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/bootstrap/context.hpp"
#include "runtime/c_api/callback.hpp"
#include "runtime/c_api/convert.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/include/hvd/hvd.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvd::rt::abi {

/// The last failure on this thread, in words.
[[nodiscard]] std::string& last_error() noexcept;

hvd_status fail(Error error) noexcept;

/// The exception that is being handled as a status.
hvd_status fail_by_exception() noexcept;

/// Runs `body`, which returns a Result<hvd_status>, and maps every way it can end to a status.
template <class Body>
inline hvd_status guarded(Body&& body) noexcept {
    try {
        Result<hvd_status> outcome = std::forward<Body>(body)();
        return outcome ? *outcome : fail(std::move(outcome).error());
    } catch (...) {
        return fail_by_exception();
    }
}

/// The same where there is no status: `otherwise` is the value of every exception.
template <class Value, class Body>
inline Value guarded_value(Value otherwise, Body&& body) noexcept {
    try {
        return std::forward<Body>(body)();
    } catch (...) {
        (void)fail_by_exception();
        return otherwise;
    }
}

inline Error invalid(std::string message) {
    return {Errc::invalid_argument, std::move(message)};
}

inline Result<Context*> checked(hvd_context* context) {
    auto* const mine = &Context::process();
    if (reinterpret_cast<Context*>(context) != mine) {
        return invalid("not the context that hvd_init gave");
    }
    return mine;
}

inline hvd_context* handle() {
    return reinterpret_cast<hvd_context*>(&Context::process());
}

/// A limit that a clock can still be set to: 31 years are as good as forever.
inline std::chrono::milliseconds limit_of(std::int64_t timeout_ms) {
    constexpr std::int64_t kLongest = 1'000'000'000'000;
    return std::chrono::milliseconds(std::min(timeout_ms, kLongest));
}

inline Deadline deadline_in(std::int64_t timeout_ms) {
    return timeout_ms < 0 ? Deadline::never() : Deadline::in(limit_of(timeout_ms));
}

inline Result<hvd_status> status_of(const Status& status) {
    return status ? Result<hvd_status>(HVD_OK) : Result<hvd_status>(status.error());
}

inline Result<hvd_status> status_of(Result<Outcome> outcome) {
    if (!outcome) {
        return std::move(outcome).error();
    }
    return *outcome == Outcome::finished ? HVD_OK : HVD_IN_PROGRESS;
}

inline void write_tickets(std::span<Operation* const> operations, hvd_ticket* tickets) {
    for (std::size_t index = 0; index < operations.size(); ++index) {
        tickets[index] = ticket_of(*operations[index]);
    }
}

inline Result<Operation*> find(hvd_context* context, hvd_ticket ticket) {
    HVD_TRY(auto* const mine, checked(context));
    HVD_TRY(const auto* const tickets, mine->tickets());
    return tickets->find(ticket);
}

/// What `wait(engine)` returns, which blocks. Only in a world: outside of one every operation has
/// ended.
template <class Wait>
inline Result<hvd_status> wait_in_world(std::string_view function,
                                        hvd_context* context,
                                        const Wait& wait) {
    HVD_TRY_STATUS(refuse_in_callback(function));
    HVD_TRY(auto* const mine, checked(context));
    HVD_TRY(auto world, mine->use());
    return status_of(wait(world->engine()));
}

/// Submits the requests and waits: `run(engine, requests, operations)` fills `operations`. Where
/// nothing was submitted the first ticket is 0.
template <class Run>
inline Result<hvd_status> run_in_world(std::string_view function,
                                       hvd_context* context,
                                       const hvd_request* requests,
                                       std::size_t count,
                                       hvd_ticket* tickets,
                                       const Run& run) {
    if (tickets == nullptr) {
        return invalid("no place for the tickets");
    }
    tickets[0] = 0;
    HVD_TRY_STATUS(refuse_in_callback(function));
    HVD_TRY(auto* const mine, checked(context));
    HVD_TRY(auto world, mine->use());
    HVD_TRY(auto read, read_requests(requests, count, world->topology().size));
    std::vector<Operation*> operations;
    auto outcome = run(world->engine(), read, operations);
    write_tickets(operations, tickets);
    return status_of(std::move(outcome));
}

}  // namespace hvd::rt::abi
