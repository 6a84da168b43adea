// SPDX-License-Identifier: Apache-2.0
//
// What a meeting gives: private to this folder.
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "collectives/transport/shm/local_group.hpp"
#include "collectives/transport/shm/shared_memory.hpp"

#include <memory>
#include <vector>

namespace hvd::coll {

/// What every rank has of every rank.
struct LocalMember {
    pid_t pid = 0;
    UniqueFd bell;   // eventfd
    UniqueFd pidfd;  // none for the own rank
};

struct LocalGroupParts {
    int rank = 0;
    // Shared because ranks that are threads have one mapping; else there is one owner.
    std::shared_ptr<SharedMemory> memory;
    std::vector<LocalMember> members;
};

/// A non-blocking eventfd. Errors: unavailable.
[[nodiscard]] Result<UniqueFd> make_wakeup();

/// Errors: unavailable.
[[nodiscard]] Result<UniqueFd> open_pidfd(pid_t pid);

/// Forgets the news when nothing more will come. Errors: unavailable when a rank is gone.
[[nodiscard]] Status hear(FailureDetector*& news);

/// The process that identifies the job where there is no key.
[[nodiscard]] pid_t launcher_of(const LocalGroupOptions& meeting);

/// The two sides of LocalGroup::meet: local rank 0, and every other one.
[[nodiscard]] Result<std::unique_ptr<LocalGroupParts>> meet_as_leader(
    const LocalGroupOptions& meeting,
    Deadline deadline);
[[nodiscard]] Result<std::unique_ptr<LocalGroupParts>> meet_as_member(
    const LocalGroupOptions& meeting,
    Deadline deadline);

}  // namespace hvd::coll
