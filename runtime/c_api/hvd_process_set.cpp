// SPDX-License-Identifier: Apache-2.0
//
// The C ABI's process sets. As in hvd.cpp there is no logic here.
#include "collectives/base/result.hpp"
#include "runtime/bootstrap/context.hpp"
#include "runtime/c_api/convert.hpp"
#include "runtime/c_api/guarded.hpp"
#include "runtime/include/hvd/hvd.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

using hvd::Result;
using namespace hvd::rt::abi;  // NOLINT(google-build-using-namespace): the other half of this file

namespace {

/// As many as there is room for; `count` says how many there are.
Result<hvd_status> write_numbers(std::span<const int> numbers,
                                 int32_t* place,
                                 size_t capacity,
                                 size_t* count) {
    if (count == nullptr || (place == nullptr && capacity != 0)) {
        return invalid("no place for the numbers, or for how many there are");
    }
    std::ranges::copy(numbers.first(std::min(numbers.size(), capacity)), place);
    *count = numbers.size();
    return HVD_OK;
}

hvd::Status check_dynamic(const hvd::rt::World& world) {
    if (!world.has_dynamic_sets()) {
        return hvd::Error{hvd::Errc::unsupported,
                          "process sets are fixed in this world: pass process_sets=\"dynamic\" to "
                          "hvd.init(), or set HOROVOD_DYNAMIC_PROCESS_SETS=1"};
    }
    return hvd::ok();
}

}  // namespace

hvd_status hvd_process_set_add(hvd_context* context,
                               const hvd_process_set* members,
                               int64_t timeout_ms,
                               int32_t* id) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY_STATUS(refuse_in_callback("hvd_process_set_add"));
        if (id == nullptr) {
            return invalid("hvd_process_set_add: no place for the id");
        }
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        HVD_TRY_STATUS(check_dynamic(*world.operator->()));
        HVD_TRY(const auto ranks, hvd::rt::read_process_set(members));
        HVD_TRY(const auto added, world->membership().add(ranks, deadline_in(timeout_ms)));
        *id = added.id;
        if (!added.is_new) {
            return invalid("a process set with these ranks exists already: set " +
                           std::to_string(added.id));
        }
        return added.outcome == hvd::rt::Outcome::finished ? HVD_OK : HVD_IN_PROGRESS;
    });
}

hvd_status hvd_process_set_remove(hvd_context* context, int32_t id, int64_t timeout_ms) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY_STATUS(refuse_in_callback("hvd_process_set_remove"));
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        HVD_TRY_STATUS(check_dynamic(*world.operator->()));
        return status_of(world->membership().remove(id, deadline_in(timeout_ms)));
    });
}

hvd_status hvd_process_set_ids(hvd_context* context, int32_t* ids, size_t capacity, size_t* count) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        return write_numbers(world->engine().process_sets().ids(), ids, capacity, count);
    });
}

hvd_status hvd_process_set_ranks(hvd_context* context,
                                 int32_t id,
                                 int32_t* ranks,
                                 size_t capacity,
                                 size_t* count) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY(auto world, mine->use());
        HVD_TRY(const auto members, world->engine().process_sets().ranks(id));
        return write_numbers(members, ranks, capacity, count);
    });
}
