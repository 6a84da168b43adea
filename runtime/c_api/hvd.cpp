// SPDX-License-Identifier: Apache-2.0
//
// The C ABI, but for plans, memory, process sets and figures. This file may not contain logic:
// check the arguments, call the runtime, turn the Result into a status. Nothing may throw out of
// here.
#include "runtime/include/hvd/hvd.h"

#include "collectives/base/result.hpp"
#include "runtime/bootstrap/context.hpp"
#include "runtime/bootstrap/mpi_world.hpp"
#include "runtime/bootstrap/nccl_version.hpp"
#include "runtime/c_api/convert.hpp"
#include "runtime/c_api/enumerators.hpp"
#include "runtime/c_api/guarded.hpp"
#include "runtime/c_api/structs.hpp"
#include "runtime/engine/engine.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gnu/libc-version.h>

using hvd::Error;
using hvd::Result;
using hvd::rt::Context;
using hvd::rt::Engine;
using hvd::rt::Operation;
using hvd::rt::TicketTable;
using namespace hvd::rt::abi;  // NOLINT(google-build-using-namespace): the other half of this file

namespace {

int32_t mpi_feature(int32_t feature) {
    const auto world = Context::process().use();
    if (!world) {
        return 0;
    }
    const bool is_used = (*world)->is_by_mpi();
    return (feature == HVD_FEATURE_MPI_USED ? is_used : (*world)->has_mpi_threads()) ? 1 : 0;
}

Result<Context::InitOptions> read_options(const hvd_init_options* options) {
    hvd_init_options none{};
    none.struct_size = sizeof none;
    HVD_TRY(const auto wanted, hvd::rt::abi::read(options == nullptr ? &none : options));
    HVD_TRY(auto sets, hvd::rt::read_process_sets(wanted.process_sets, wanted.process_set_count));
    if (wanted.reserved != 0) {
        return Error{hvd::Errc::unsupported, "hvd_init_options.reserved is not 0"};
    }
    Context::InitOptions init{.mpi_communicator = wanted.mpi_comm,
                              .has_dynamic_sets = wanted.dynamic_process_sets != 0};
    if (wanted.timeout_ms > 0) {
        init.timeout = limit_of(wanted.timeout_ms);
    }
    init.process_sets = std::move(sets);
    return init;
}

/// How the operation has ended; nothing while it is under way. For a callback it has ended when its
/// result is there, though its own callback may not be over.
std::optional<hvd::Status> ending_of(const Operation& operation) {
    if (TicketTable::is_done(operation)) {
        return TicketTable::outcome(operation);
    }
    if (is_in_callback() && TicketTable::has_ended(operation)) {
        return operation.failed ? hvd::Status(operation.error) : hvd::ok();
    }
    return std::nullopt;
}

bool has_result(const Operation& operation) noexcept {
    return TicketTable::has_ended(operation) && !operation.failed;
}

}  // namespace

const char* hvd_version(void) {
    return HVD_VERSION_TEXT;
}

int32_t hvd_enum_value(const char* name) {
    return name == nullptr ? -1 : hvd::rt::enum_value(name);
}

int32_t hvd_feature_value(int32_t feature) {
    return guarded_value<int32_t>(0, [&]() -> int32_t {
        switch (feature) {
            case HVD_FEATURE_GLOO: return 1;
            case HVD_FEATURE_NCCL: return hvd::rt::nccl_version();
            case HVD_FEATURE_CUDA: return Context::process().takes_gpu_tensors() ? 1 : 0;
            case HVD_FEATURE_MPI: return hvd::rt::is_mpi_built() ? 1 : 0;
            case HVD_FEATURE_MPI_USED:
            case HVD_FEATURE_MPI_THREADS: return mpi_feature(feature);
            default: return 0;
        }
    });
}

hvd_status hvd_init(const hvd_init_options* options, hvd_context** context) {
    return guarded([&]() -> Result<hvd_status> {
        if (context == nullptr) {
            return invalid("hvd_init: no place for the context");
        }
        *context = nullptr;
        HVD_TRY(const auto init, read_options(options));
        if (is_in_callback() && Context::process().in_world()) {
            *context = handle();
            return HVD_OK;
        }
        HVD_TRY_STATUS(refuse_in_callback("hvd_init"));
        HVD_TRY_STATUS(Context::process().init(init));
        *context = handle();
        return HVD_OK;
    });
}

hvd_context* hvd_current(void) {
    return guarded_value<hvd_context*>(
        nullptr, [] { return Context::process().in_world() ? handle() : nullptr; });
}

hvd_status hvd_shutdown(hvd_context* context) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY_STATUS(refuse_in_callback("hvd_shutdown"));
        HVD_TRY(auto* const mine, checked(context));
        return status_of(mine->shutdown());
    });
}

hvd_status hvd_topology_of(hvd_context* context, hvd_topology* topology) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(const auto* const mine, checked(context));
        if (topology == nullptr) {
            return invalid("no topology to fill");
        }
        HVD_TRY(const auto known, mine->topology());
        hvd_topology filled{};
        filled.rank = known.rank;
        filled.size = known.size;
        filled.local_rank = known.local_rank;
        filled.local_size = known.local_size;
        filled.cross_rank = known.cross_rank;
        filled.cross_size = known.cross_size;
        filled.is_homogeneous = known.is_homogeneous ? 1 : 0;
        return status_of(hvd::rt::abi::write(filled, topology));
    });
}

hvd_status hvd_submit(hvd_context* context,
                      const hvd_request* requests,
                      size_t count,
                      hvd_ticket* tickets) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        HVD_TRY(auto read, hvd::rt::read_requests(requests, count, world->topology().size));
        if (tickets == nullptr) {
            return invalid("no place for the tickets");
        }
        HVD_TRY(const auto operations, world->engine().submit(read));
        write_tickets(operations, tickets);
        return HVD_OK;
    });
}

hvd_status hvd_run(hvd_context* context,
                   const hvd_request* requests,
                   size_t count,
                   hvd_ticket* tickets,
                   int64_t timeout_ms) {
    return guarded([&] {
        return run_in_world("hvd_run", context, requests, count, tickets,
                            [=](Engine& engine, auto& read, auto& operations) {
                                return engine.run(read, operations, deadline_in(timeout_ms));
                            });
    });
}

hvd_status hvd_poll(hvd_context* context, hvd_ticket ticket) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(const auto* const operation, find(context, ticket));
        const auto ending = ending_of(*operation);
        if (!ending) {
            return HVD_IN_PROGRESS;
        }
        HVD_TRY_STATUS(*ending);
        if (operation->event == nullptr) {
            return HVD_OK;
        }
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        return status_of(world->engine().poll_device(*operation));
    });
}

hvd_status hvd_wait(hvd_context* context, hvd_ticket ticket, int64_t timeout_ms) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(auto* const operation, find(context, ticket));
        const auto ending = ending_of(*operation);
        if (ending && (!*ending || operation->event == nullptr)) {
            return status_of(*ending);
        }
        return wait_in_world("hvd_wait", context, [&](Engine& engine) {
            return engine.wait(*operation, deadline_in(timeout_ms));
        });
    });
}

hvd_status hvd_wait_any(hvd_context* context,
                        const hvd_ticket* tickets,
                        size_t count,
                        int64_t timeout_ms,
                        size_t* index) {
    return guarded([&]() -> Result<hvd_status> {
        if (tickets == nullptr || count == 0 || index == nullptr) {
            return invalid("hvd_wait_any: no tickets, or no place for the index");
        }
        std::vector<Operation*> operations;
        for (const auto ticket : std::span(tickets, count)) {
            HVD_TRY(auto* const operation, find(context, ticket));
            operations.push_back(operation);
        }
        HVD_TRY_STATUS(refuse_in_callback("hvd_wait_any"));
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        HVD_TRY(const auto first, world->engine().wait_any(operations, deadline_in(timeout_ms)));
        if (first == count) {
            return HVD_IN_PROGRESS;
        }
        *index = first;
        return status_of(TicketTable::outcome(*operations[first]));
    });
}

hvd_status hvd_on_complete(hvd_context* context,
                           hvd_ticket ticket,
                           hvd_callback done,
                           void* argument) {
    return guarded([&]() -> Result<hvd_status> {
        if (done == nullptr) {
            return invalid("hvd_on_complete: no callback");
        }
        HVD_TRY(auto* const operation, find(context, ticket));
        return status_of(TicketTable::on_complete(
            *operation, [=](const Error* error) { return call_back(done, argument, error); }));
    });
}

hvd_status hvd_result(hvd_context* context, hvd_ticket ticket, hvd_tensor* tensor) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(const auto* const operation, find(context, ticket));
        if (!has_result(*operation)) {
            return invalid("hvd_result: the operation has not ended with HVD_OK");
        }
        return status_of(hvd::rt::write_result(*operation, tensor));
    });
}

hvd_status hvd_received_splits(hvd_context* context,
                               hvd_ticket ticket,
                               const int64_t** splits,
                               size_t* count) {
    return guarded([&]() -> Result<hvd_status> {
        if (splits == nullptr || count == nullptr) {
            return invalid("hvd_received_splits: no place for the splits");
        }
        HVD_TRY(const auto* const operation, find(context, ticket));
        if (!has_result(*operation)) {
            return invalid("hvd_received_splits: the operation has not ended with HVD_OK");
        }
        if (operation->signature.op != hvd::coll::Op::alltoall) {
            return invalid("'" + operation->name->text + "' is no alltoall");
        }
        *splits = operation->received_splits.data();
        *count = operation->received_splits.size();
        return HVD_OK;
    });
}

hvd_status hvd_release(hvd_context* context, hvd_ticket ticket) {
    return hvd_release_all(context, &ticket, 1);
}

hvd_status hvd_release_all(hvd_context* context, const hvd_ticket* tickets, size_t count) {
    return guarded([&]() -> Result<hvd_status> {
        if (tickets == nullptr && count != 0) {
            return invalid("hvd_release_all: no tickets");
        }
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto* const table, mine->tickets());
        return status_of(table->release(std::span(tickets, count)));
    });
}

hvd_status hvd_timeline_start(hvd_context* context, const char* path, int32_t mark_cycles) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(auto* const mine, checked(context));
        if (path == nullptr) {
            return invalid("hvd_timeline_start: no path");
        }
        HVD_TRY(auto world, mine->use());
        return status_of(world->start_timeline(path, mark_cycles != 0));
    });
}

hvd_status hvd_timeline_stop(hvd_context* context) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        return status_of(world->stop_timeline());
    });
}

hvd_status hvd_report(int32_t kind, int32_t peer, const char* text) {
    return guarded([&]() -> Result<hvd_status> {
        using hvd::coll::ReportKind;
        const std::string words = text == nullptr ? "" : text;
        const auto tell = [&](ReportKind meaning, const std::string& said) {
            return status_of(Context::process().report(meaning, peer, said));
        };
        switch (kind) {
            case HVD_REPORT_EXCEPTION: return tell(ReportKind::exception, words);
            case HVD_REPORT_PEER_LOST: return tell(ReportKind::peer_lost, words);
            case HVD_REPORT_VERSIONS:
                return tell(ReportKind::versions, std::string("horovod ") + hvd_version() +
                                                      "\nC library " + ::gnu_get_libc_version() +
                                                      "\n" + words);
            default: return invalid("hvd_report: kind " + std::to_string(kind) + " is unknown");
        }
    });
}

const char* hvd_last_error(void) {
    return last_error().c_str();
}
