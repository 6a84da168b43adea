// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/own_failure.hpp"

#include "runtime/negotiation/messages.hpp"

#include <exception>
#include <variant>

namespace hvd::rt {

void OwnFailure::tell(const Error& cause) noexcept {
    if (cause.code != Errc::internal) {
        return;
    }
    try {
        if (negotiator_.coordinates()) {
            negotiator_.end_world_here(cause);
        } else {
            channel_.announce(
                encode(Announcement{.process_set = 0,
                                    .members = {{.name = "the world", .signature = {}}},
                                    .failure = cause.message,
                                    .ends_world = true}));
        }
        (void)channel_.flush();
        is_on_its_way_ = true;
    } catch (const std::exception&) {  // the channel has failed too, which the others find out
    }
}

Result<bool> OwnFailure::look() {
    bool has_moved = channel_.flush();
    while (is_on_its_way_) {
        HVD_TRY(const auto event, channel_.poll());
        if (!event) {
            break;
        }
        has_moved = true;
        if (const auto* decided = std::get_if<event::Decided>(&*event)) {
            HVD_TRY(const auto decision, decode_decision(decided->message));
            is_on_its_way_ = !decision.error || !decision.ends_world;
        }
    }
    return has_moved;
}

}  // namespace hvd::rt
