// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/name_query.hpp"

#include <algorithm>

namespace hvd::rt {

NameQuery ask_for_names(NegotiationContext& context, Waiting::TimePoint before) {
    NameQuery asked;
    context.agreements.for_each_waiting([&](Agreement& agreement) {
        if (agreement.has_asked) {
            return;
        }
        const Operation& leader = *agreement.waiting;
        if (leader.since > before) {
            asked.oldest = std::min(asked.oldest.value_or(leader.since), leader.since);
            return;
        }
        agreement.has_asked = true;
        asked.has_asked = true;
        Announcement announcement{.process_set = leader.process_set, .members = {}};
        announcement.asks_for_names = true;
        for_each_member(leader, [&](const Operation& member) {
            announcement.members.push_back({member.name->text, member.signature});
        });
        context.channel.announce(encode(announcement));
    });
    return asked;
}

}  // namespace hvd::rt
