// SPDX-License-Identifier: Apache-2.0
//
// The parts of a local group. Private to this folder.
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "collectives/transport/shm/local_group.hpp"
#include "collectives/transport/shm/shared_memory.hpp"

#include <memory>
#include <vector>

namespace hvd::coll {

/// A peer, as every rank holds it.
struct GroupPeer {
    pid_t pid = 0;
    UniqueFd wakeup;  // eventfd
    UniqueFd pidfd;   // none for the own rank
};

struct LocalGroupParts {
    int rank = 0;
    // Shared because ranks that are threads have one mapping; else there is one owner.
    std::shared_ptr<SharedMemory> memory;
    std::vector<GroupPeer> peers;  // by rank, the own one included
};

/// A non-blocking eventfd. Errors: unavailable.
[[nodiscard]] Result<UniqueFd> make_wakeup();

/// Errors: unavailable.
[[nodiscard]] Result<UniqueFd> open_pidfd(pid_t pid);

/// Forgets the detector when it will report nothing more. Errors: unavailable when a rank is gone.
[[nodiscard]] Status check_failures(FailureDetector*& failures);

/// The rank of the world that is `local` on this host.
[[nodiscard]] int world_rank_of(const LocalGroupOptions& options, int local);

/// The process that identifies the job where there is no key.
[[nodiscard]] pid_t launcher_of(const LocalGroupOptions& options);

}  // namespace hvd::coll
