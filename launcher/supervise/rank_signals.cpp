// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/rank_signals.hpp"

#include <algorithm>

namespace hvd::launch {

bool RankSignals::has_bare_launcher(std::size_t host) const {
    const auto& plan = plan_.hosts[host];
    return plan.ranks.empty() && !plan.launchers.empty();
}

void RankSignals::ask_bare_launcher(int signal) {
    if (std::ranges::any_of(record_.ranks,
                            [](const RankRecord& rank) { return rank.started.has_value(); })) {
        return;
    }
    for (std::size_t host = 0; host < plan_.hosts.size(); ++host) {
        if (has_bare_launcher(host)) {
            fleet_.send(host, wire::Signal{.number = signal});
        }
    }
}

void RankSignals::send(int signal) {
    ask_bare_launcher(signal);
    for (std::size_t host = 0; host < plan_.hosts.size(); ++host) {
        if (!has_bare_launcher(host)) {
            fleet_.send(host, wire::Signal{.number = signal});
        }
    }
}

}  // namespace hvd::launch
