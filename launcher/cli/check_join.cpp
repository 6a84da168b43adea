// SPDX-License-Identifier: Apache-2.0
//
// Hosts that are not started from here but join by themselves.
#include "launcher/cli/draft.hpp"
#include "launcher/cli/flag.hpp"
#include "launcher/cli/values.hpp"

#include <algorithm>

namespace hvd::launch {
Status check_join(Draft& draft) {
    constexpr std::string_view kTokenVariable = "HOROVOD_JOIN_TOKEN_FILE";
    auto& request = draft.request;
    if (const auto file = find(draft.environment, kTokenVariable);
        file && !file->empty() && !request.hosts.join_token_file) {
        request.hosts.join_token_file = *file;
    }
    draft.join.token_file = request.hosts.join_token_file;
    if (request.hosts.join_count && !request.hosts.listen) {
        return wrong("--join-hosts says for how many hosts --listen waits; add --listen HOST:PORT");
    }
    if (request.hosts.join_count && !request.hosts.list.empty()) {
        return wrong("--join-hosts and -H: write one of them; -H names the hosts that join");
    }
    if (request.hosts.listen && request.mpi.is_wanted) {
        return wrong(request.mpi.is_jsrun
                         ? "--jsrun takes the hosts of its LSF job; leave --listen out"
                         : "--mpi has mpirun start the hosts; leave --listen out");
    }
    if (request.hosts.listen && request.dry_run.facts_file) {
        return wrong("--facts plans without any host; leave --listen out");
    }
    if (!draft.is_joining && (draft.join.slots != 0 || !draft.join.name.empty())) {
        return wrong(
            "--join-name and --join-slots are for a host that joins; add --join HOST:PORT");
    }
    return ok();
}

Status check_joining(Draft& draft, const std::vector<std::string>& spellings) {
    const auto idle = std::ranges::find_if(spellings, [](std::string_view spelled) {
        return (find_flag(spelled)->details.places & in_join) == 0;
    });
    if (idle != spellings.end()) {
        return wrong(*idle +
                     " does not go with --join: what runs is said where horovodrun --listen is");
    }
    if (!draft.request.command.empty()) {
        return wrong("--join takes no command: horovodrun --listen has it");
    }
    return check_join(draft);
}

}  // namespace hvd::launch
