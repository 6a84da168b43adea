// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unix_socket.hpp"
#include "collectives/transport/shm/group_parts.hpp"
#include "collectives/transport/shm/join_messages.hpp"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hvd::coll {

/// The side of every local rank but 0 of forming a group: finds local rank 0, introduces itself and
/// takes every descriptor.
class GroupMember {
public:
    GroupMember(const LocalGroupOptions& options, Deadline deadline);

    [[nodiscard]] Result<std::unique_ptr<LocalGroupParts>> run();

private:
    [[nodiscard]] Result<bool> try_once();
    [[nodiscard]] std::vector<std::string> candidates() const;
    [[nodiscard]] Result<bool> join_at(const std::string& name);
    [[nodiscard]] Status follow_leader();
    [[nodiscard]] Status take(const join_message::Members& message, std::vector<UniqueFd>& fds);
    [[nodiscard]] Error no_leader() const;

    const LocalGroupOptions& options_;
    Deadline deadline_;
    FailureDetector* failures_;
    Deadline answer_limit_;
    UniqueFd wakeup_;
    UniqueFd socket_;
    std::set<std::string> names_of_others_;  // of sockets that belong to other users
    std::string other_owner_;                // of one of them, for the error
    bool has_answered_ = false;
    std::optional<SharedMemory> memory_;
    std::vector<GroupPeer> peers_;  // by local rank
};

}  // namespace hvd::coll
