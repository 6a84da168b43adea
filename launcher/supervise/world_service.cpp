// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/world_service.hpp"

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

void WorldService::on(std::size_t host, wire::Put& event) {
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

void WorldService::on(std::size_t host, const wire::Get& event) {
    tell(peer_failures_.on_get(event.rank, event.key));
    const auto* value =
        keys_.get(event.key, {.host = host, .rank = event.rank, .request = event.request});
    if (value != nullptr) {
        fleet_.send(host,
                    wire::GetValue{.rank = event.rank, .request = event.request, .value = *value});
    }
}

}  // namespace hvd::launch
