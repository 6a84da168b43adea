// SPDX-License-Identifier: Apache-2.0
//
// The C ABI's figures. As in hvd.cpp there is no logic here.
#include "collectives/base/result.hpp"
#include "runtime/bootstrap/context.hpp"
#include "runtime/c_api/guarded.hpp"
#include "runtime/c_api/structs.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/include/hvd/hvd.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

using hvd::Result;
using namespace hvd::rt::abi;  // NOLINT(google-build-using-namespace): the other half of this file

namespace {

uint64_t nanoseconds(std::chrono::nanoseconds time) {
    return static_cast<uint64_t>(time.count());
}

hvd_metrics row_of(const hvd::rt::MetricsRow& row) {
    hvd_metrics filled{};
    filled.process_set = row.process_set;
    filled.op = static_cast<int32_t>(row.op);  // the enumerators are the same
    filled.operations = row.metrics.operations;
    filled.bytes = row.metrics.bytes;
    filled.collectives = row.metrics.collectives;
    filled.largest = row.metrics.largest;
    filled.waits = row.metrics.waits;
    filled.wait_ns = nanoseconds(row.metrics.wait);
    filled.timed = row.metrics.timed;
    filled.copy_ns = nanoseconds(row.metrics.copy);
    filled.wire_ns = nanoseconds(row.metrics.wire);
    return filled;
}

hvd_arrivals row_of(const hvd::rt::ArrivalsRow& row) {
    hvd_arrivals filled{};
    filled.process_set = row.process_set;
    filled.op = static_cast<int32_t>(row.op);
    filled.rank = row.rank;
    filled.times = row.times;
    filled.wait_ns = nanoseconds(row.wait);
    return filled;
}

/// Writes those of the known rows for which the caller has room.
template <class Known, class Struct>
hvd::Status write_rows(const std::vector<Known>& known, Struct* rows, size_t capacity) {
    const auto size = capacity == 0 ? sizeof(Struct) : rows->struct_size;
    for (size_t index = 0; index < std::min(capacity, known.size()); ++index) {
        auto* const row =
            reinterpret_cast<Struct*>(reinterpret_cast<std::byte*>(rows) + index * size);
        row->struct_size = size;
        HVD_TRY_STATUS(hvd::rt::abi::write(row_of(known[index]), row));
    }
    return hvd::ok();
}

/// Runs a function for rows: `pick` takes its rows of all figures.
template <class Struct, class Pick>
hvd_status list_rows(const char* function,
                     hvd_context* context,
                     Struct* rows,
                     size_t capacity,
                     size_t* count,
                     Pick pick) {
    return guarded([&]() -> Result<hvd_status> {
        if (count == nullptr || (rows == nullptr && capacity != 0)) {
            return invalid(std::string(function) + ": no place for the rows or their number");
        }
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        const auto known = pick(world->engine().metrics());
        HVD_TRY_STATUS(write_rows(known, rows, capacity));
        *count = known.size();
        return HVD_OK;
    });
}

}  // namespace

hvd_status hvd_counters_of(hvd_context* context, hvd_counters* counters) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        if (counters == nullptr) {
            return invalid("no counters to fill");
        }
        const auto known = world->engine().counters();
        hvd_counters filled{};
        filled.submitted = known.submitted;
        filled.completed = known.completed;
        filled.agreed_by_name = known.agreed_by_name;
        filled.agreed_by_bit = known.agreed_by_bit;
        filled.names_bytes = known.names_bytes;
        filled.collectives = known.collectives;
        filled.collective_bytes = known.collective_bytes;
        filled.engine_wakeups = known.engine_wakeups;
        filled.caller_progress = known.caller_progress;
        return status_of(hvd::rt::abi::write(filled, counters));
    });
}

hvd_status hvd_metrics_of(hvd_context* context, hvd_metrics* rows, size_t capacity, size_t* count) {
    return list_rows("hvd_metrics_of", context, rows, capacity, count,
                     [](const hvd::rt::Metrics& all) { return all.operations; });
}

hvd_status hvd_arrivals_of(hvd_context* context,
                           hvd_arrivals* rows,
                           size_t capacity,
                           size_t* count) {
    return list_rows("hvd_arrivals_of", context, rows, capacity, count,
                     [](const hvd::rt::Metrics& all) { return all.arrivals; });
}
