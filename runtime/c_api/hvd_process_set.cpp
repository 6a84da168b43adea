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
#include <numeric>
#include <span>
#include <string>
#include <vector>

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

}  // namespace

hvd_status hvd_process_set_add(hvd_context* context,
                               const hvd_process_set* members,
                               int64_t /*timeout_ms*/,
                               int32_t* id) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY_STATUS(refuse_in_callback("hvd_process_set_add"));
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY_STATUS(mine->use());
        if (id == nullptr) {
            return invalid("hvd_process_set_add: no place for the id");
        }
        HVD_TRY_STATUS(hvd::rt::read_process_set(members));
        return no_process_sets();
    });
}

hvd_status hvd_process_set_remove(hvd_context* context, int32_t id, int64_t /*timeout_ms*/) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY_STATUS(refuse_in_callback("hvd_process_set_remove"));
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY_STATUS(mine->use());
        if (id == 0) {
            return invalid("hvd_process_set_remove: set 0 is the world, which stays");
        }
        return no_process_sets();
    });
}

hvd_status hvd_process_set_ids(hvd_context* context, int32_t* ids, size_t capacity, size_t* count) {
    return guarded([&]() -> Result<hvd_status> {
        HVD_TRY(auto* const mine, checked(context));
        HVD_TRY_STATUS(mine->use());
        return write_numbers(std::vector{0}, ids, capacity, count);
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
        if (id != 0) {
            return invalid("process set " + std::to_string(id) + " does not exist");
        }
        std::vector<int> all(static_cast<std::size_t>(world->topology().size));
        std::iota(all.begin(), all.end(), 0);
        return write_numbers(all, ranks, capacity, count);
    });
}
