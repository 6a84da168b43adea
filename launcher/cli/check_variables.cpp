// SPDX-License-Identifier: Apache-2.0
//
// Whether the runtime will take the variables that nobody gave by a flag: what it would refuse in
// every rank is refused before any rank starts.
#include "collectives/base/text.hpp"
#include "collectives/transport/tcp/address.hpp"
#include "launcher/cli/draft.hpp"
#include "launcher/cli/values.hpp"

#include <string>
#include <utility>

namespace hvd::launch {
namespace {

Status check_interfaces(std::string_view value) {
    HVD_TRY_STATUS(coll::net::parse_interface_filter(value));
    return ok();
}

Status check_start_timeout(std::string_view value) {
    HVD_TRY_STATUS(whole_number(value, 1, kLongestSeconds));
    return ok();
}

Status check_deterministic(std::string_view value) {
    HVD_TRY_STATUS(whole_number(value, 0, 1));
    return ok();
}

template <class Checker>
Status check(const Draft& draft, std::string_view name, const Checker& checker) {
    const auto value = variable_of_ranks(draft, name);
    if (!value || value->empty()) {  // unset, as for the runtime
        return ok();
    }
    auto status = checker(trim(*value));
    return status ? ok() : std::move(status).error().context(std::string(name) + "=" + *value);
}

}  // namespace

std::optional<std::string> variable_of_ranks(const Draft& draft, std::string_view name) {
    for (const auto* place : {&draft.request.environment.set, &draft.request.environment.tunables,
                              &draft.environment}) {
        if (auto value = find(*place, name)) {
            return value;
        }
    }
    return std::nullopt;
}

Status check_variables(const Draft& draft) {
    for (const auto* setting : settings()) {
        if (has_no_effect(*setting)) {
            continue;
        }
        const auto checker = [&](std::string_view value) {
            return check_exported(*setting, value);
        };
        HVD_TRY_STATUS(check(draft, setting->setting.variable, checker));
    }
    HVD_TRY_STATUS(check(draft, kNetworkInterfaces, check_interfaces));
    HVD_TRY_STATUS(check(draft, "HOROVOD_DETERMINISTIC", check_deterministic));
    return check(draft, kStartTimeout, check_start_timeout);
}

}  // namespace hvd::launch
