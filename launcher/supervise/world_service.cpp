// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/world_service.hpp"

#include "collectives/launch_contract/agent_protocol.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace hvd::launch {

/// Before they are asked to stop: what they wait for fails with the reason.
void WorldService::tell(const std::optional<wire::PeerLost>& lost) {
    if (lost) {
        fleet_.send_all(*lost);
    }
}

void WorldService::on_exited(int rank, const JobRecord& record) {
    tell(peer_failures_.on_exited(record.ranks.at(static_cast<std::size_t>(rank))));
    tell_members(record);
}

void WorldService::on_host_lost(const HostPlan& host,
                                const JobRecord& record,
                                std::string_view why) {
    tell(peer_failures_.on_host_lost(host, record, why));
    tell_members(record);
}

/// Answers the ranks of worlds that have been decided on.
void WorldService::tell_members(const JobRecord& record) {
    for (const auto& decision : members_.decide(record)) {
        peer_failures_.on_new_world(decision.ranks, record);
        std::vector<coll::WorldMember> members;
        for (std::size_t index = 0; index < decision.ranks.size(); ++index) {
            members.push_back({.rank = decision.ranks[index],
                               .host = static_cast<int>(decision.askers[index].host)});
        }
        for (const auto& asker : decision.askers) {
            fleet_.send(asker.host, wire::GetValue{.rank = asker.rank,
                                                   .request = asker.request,
                                                   .value = coll::encode_members(members)});
        }
    }
}

void WorldService::on(std::size_t host, wire::Put& event, const JobRecord& /*record*/) {
    tell(peer_failures_.on_put(event.rank, event.key));
    const auto value = event.value;
    auto stored = keys_.put(event.key, std::move(event.value));
    fleet_.send(
        host, wire::PutDone{
                  .rank = event.rank, .request = event.request, .error = std::move(stored.error)});
    for (const auto& asker : stored.now_served) {
        fleet_.send(asker.host,
                    wire::GetValue{.rank = asker.rank, .request = asker.request, .value = value});
    }
}

std::vector<int> WorldService::on_start_timeout(int rank, const JobRecord& record) {
    auto late = peer_failures_.late_ranks(rank, record);
    wire::Inspect question;
    std::ranges::copy_if(late, std::back_inserter(question.ranks), [&](int number) {
        return !record.ranks[static_cast<std::size_t>(number)].missed;
    });
    if (!question.ranks.empty()) {
        fleet_.send_all(question);
    }
    return late;
}

void WorldService::on(std::size_t host, const wire::Get& event, const JobRecord& record) {
    if (coll::is_members_key(event.key)) {
        const int world = coll::world_of(event.key).value_or(0);
        peer_failures_.on_ask(event.rank, world);
        members_.ask(world, {.host = host, .rank = event.rank, .request = event.request});
        tell_members(record);
        return;
    }
    tell(peer_failures_.on_get(event.rank, event.key));
    const auto* value =
        keys_.get(event.key, {.host = host, .rank = event.rank, .request = event.request});
    if (value != nullptr) {
        fleet_.send(host,
                    wire::GetValue{.rank = event.rank, .request = event.request, .value = *value});
    }
}

}  // namespace hvd::launch
