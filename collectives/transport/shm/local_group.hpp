// SPDX-License-Identifier: Apache-2.0
//
// The group of one host's ranks: shared memory, a wake-up descriptor for each rank and its pidfd,
// all passed as descriptors over a Unix socket. "Same host" means exactly that this worked.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/base/unique_fd.hpp"
#include "collectives/failure_detector.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvd::coll {

struct LocalGroupParts;

/// How the ranks of one host find each other.
struct LocalGroupOptions {
    int rank = 0;  // among the ranks of this host
    int size = 1;

    /// With a key: the name of an abstract Unix socket, without the leading NUL, which other users
    /// cannot guess. Without one: how such a name begins, the same on the ranks of one launcher
    /// only; local rank 0 adds a random end.
    std::string name{};

    /// Through the store. Empty where there is no store: then the user and the launcher identify
    /// the job.
    std::vector<std::byte> key{};

    /// Without a key: the process that started all ranks and must be an ancestor of each. 0 means
    /// the own parent.
    pid_t launcher = 0;

    /// The ranks of the world that the ranks of this host are, for messages. Empty: the same.
    std::vector<int> world_ranks{};

    /// Bytes of each shared segment; the same on all ranks.
    std::vector<std::size_t> segments{};

    /// Reports ranks that will not come; null where nothing does.
    FailureDetector* failures = nullptr;
};

/// Thread: progress lock, but for `notify`, which any thread may call. In a forked child nothing
/// works and nothing is left of the shared memory (MADV_DONTFORK, close-on-exec).
class LocalGroup {
public:
    /// Forms the group with the other ranks. Sockets of other users never end it, whatever their
    /// names. Errors: timed_out with the ranks of the world that are missing; invalid_argument when
    /// a rank came twice (both pids) or a process of another job came; unavailable when shared
    /// memory cannot be had (with the remedy), or a rank is gone (as the failure detector says it).
    [[nodiscard]] static Result<std::unique_ptr<LocalGroup>> form(const LocalGroupOptions& options,
                                                                  Deadline deadline);

    /// The same group for ranks that are threads of one process, in rank order. Nothing is
    /// authenticated, and a peer's pidfd is this process's. Errors: unavailable.
    [[nodiscard]] static Result<std::vector<std::unique_ptr<LocalGroup>>> among_threads(
        int size,
        std::span<const std::size_t> segments);

    ~LocalGroup();
    LocalGroup(const LocalGroup&) = delete;
    LocalGroup& operator=(const LocalGroup&) = delete;

    [[nodiscard]] int rank() const noexcept;
    [[nodiscard]] int size() const noexcept;
    [[nodiscard]] pid_t pid(int rank) const noexcept;

    /// Zero-filled at first, page-aligned, the same memory on all ranks.
    [[nodiscard]] std::span<std::byte> segment(std::size_t index) const noexcept;

    /// The file of the group's memory, open as long as the group lives, and how many bytes of it
    /// the segments take: what follows them is free for the one user who makes it longer.
    [[nodiscard]] int memory_descriptor() const noexcept;
    [[nodiscard]] std::size_t memory_bytes() const noexcept;

    /// Readable once the peer's process has ended. Not for the own rank.
    [[nodiscard]] int peer_pidfd(int rank) const noexcept;

    /// Readable once this rank was notified; `drain` resets it.
    [[nodiscard]] int wakeup_descriptor() const noexcept;
    void drain() const noexcept;

    /// Before sleeping on the wake-up descriptor: announces it, so that peers notify. The caller
    /// then looks for work once more, and only then sleeps. `awake` ends it.
    void about_to_sleep() noexcept;
    void awake() noexcept;

    /// Wakes the rank if it sleeps. Costs a system call only then. What was written to shared
    /// memory before is visible to the woken rank.
    void notify(int rank) noexcept;
    void notify_others() noexcept;

    /// Notifies the rank whether it has announced that it sleeps or not: for what must also reach a
    /// rank that expects nothing. Costs a system call.
    void notify_always(int rank) const noexcept;
    /// The same for the own rank.
    void notify_self() const noexcept;

private:
    explicit LocalGroup(std::unique_ptr<LocalGroupParts> parts);

    std::unique_ptr<LocalGroupParts> parts_;
};

}  // namespace hvd::coll
