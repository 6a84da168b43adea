// SPDX-License-Identifier: Apache-2.0
//
// The rank's side of its agent's socket: a Store, the one way to tell the launcher why this rank is
// about to fail, and word of ranks that are gone.
#pragma once

#include "collectives/failure_detector.hpp"
#include "collectives/launch_contract/agent_protocol.hpp"
#include "collectives/launch_contract/launch_env.hpp"
#include "collectives/rendezvous/store.hpp"

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace hvd::coll {

/// `get` fails at once with unavailable when a rank of the world is gone. Ranks are numbered as the
/// launcher does, and after `enter_world` as that world does.
class AgentStore : public Store, public FailureDetector {
public:
    /// Errors: unavailable when no agent answers at the contract's socket, timed_out.
    [[nodiscard]] static Result<std::unique_ptr<AgentStore>> connect(const LaunchContract& contract,
                                                                     Deadline deadline);

    /// Sends and does not wait for an answer. Of `text`, the last 64 KiB go. Never raises SIGPIPE,
    /// takes at most a second. Thread: any.
    [[nodiscard]] virtual Status report(ReportKind kind, int peer, std::string_view text) = 0;

    /// How many worlds earlier processes of this rank have entered, as those of a script that runs
    /// two programs.
    [[nodiscard]] virtual int first_world() const noexcept = 0;

    /// Waits until all ranks that have not ended have called it for this world, which then is
    /// theirs: ranks that have ended before do not count as failures any more. Errors: timed_out,
    /// unavailable.
    [[nodiscard]] virtual Result<std::vector<WorldMember>> enter_world(int world,
                                                                       Deadline deadline) = 0;

    /// The first rank of the world that is gone, also where `next_failure` has told it. Waits for
    /// word of one.
    [[nodiscard]] virtual std::optional<PeerFailure> first_failure(Deadline deadline) = 0;
};

}  // namespace hvd::coll
