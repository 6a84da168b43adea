// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unix_socket.hpp"
#include "collectives/transport/shm/group_parts.hpp"
#include "collectives/transport/shm/join_messages.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>

namespace hvd::coll {

/// Local rank 0's side of forming a group: creates the memory, accepts the other ranks, and hands
/// every descriptor to every rank. A process that connects is pending until its hello proves that
/// it is a rank of this job; a pending one can neither delay nor end the rendezvous.
class GroupLeader {
public:
    GroupLeader(const LocalGroupOptions& options, Deadline deadline);

    [[nodiscard]] Result<std::unique_ptr<LocalGroupParts>> run();

private:
    struct Pending {
        UniqueFd socket;
        PeerCredentials credentials;
        Deadline deadline;
    };
    struct Member {
        UniqueFd socket;  // none for the leader itself
        GroupPeer peer;
    };

    [[nodiscard]] Status gather();
    [[nodiscard]] Status create_own();
    [[nodiscard]] Status listen();
    [[nodiscard]] std::optional<PeerCredentials> find_other_leader() const;
    [[nodiscard]] bool is_complete() const;

    [[nodiscard]] Status wait_and_handle();
    [[nodiscard]] std::vector<pollfd> descriptors() const;
    [[nodiscard]] Deadline next_deadline() const;
    void accept_pending();
    void authenticate(Pending pending);
    [[nodiscard]] std::optional<std::string> why_not(const join_message::Hello& hello,
                                                     pid_t pid) const;
    void refuse(const UniqueFd& socket, pid_t pid, const std::string& why);
    void note(pid_t pid, const std::string& why);
    [[nodiscard]] std::string missing_ranks() const;

    [[nodiscard]] Status distribute();
    [[nodiscard]] Status send_descriptors(int socket) const;
    void tell_members(const Error& error) const;

    const LocalGroupOptions& options_;
    Deadline deadline_;
    FailureDetector* failures_;
    std::string name_;  // of the socket
    UniqueFd listener_;
    UniqueFd memory_fd_;
    std::optional<SharedMemory> memory_;
    std::vector<Pending> pending_;
    std::vector<std::optional<Member>> members_;  // by local rank
    std::vector<std::string> refusals_;           // the first few, for the error
};

}  // namespace hvd::coll
