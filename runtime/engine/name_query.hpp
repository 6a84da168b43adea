// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/engine/set_negotiation.hpp"
#include "runtime/negotiation/stall.hpp"

#include <optional>

namespace hvd::rt {

/// The outcome of one look at the groups that wait with their ready bit set.
struct NameQuery {
    bool has_asked = false;
    std::optional<Waiting::TimePoint> oldest;  // of the groups that were not asked about
};

/// Announces by name, for a report of a stall, the groups that have waited with their ready bit
/// since `before`, each once: a ready bit tells the coordinator neither the rank nor the name.
[[nodiscard]] NameQuery ask_for_names(NegotiationContext& context, Waiting::TimePoint before);

}  // namespace hvd::rt
