// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/local_group.hpp"

#include "collectives/base/assert.hpp"
#include "collectives/base/pidfd.hpp"
#include "collectives/transport/shm/group_leader.hpp"
#include "collectives/transport/shm/group_member.hpp"
#include "collectives/transport/shm/group_parts.hpp"

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace hvd::coll {
namespace {

constexpr std::size_t kRanksPerWord = 64;

[[nodiscard]] std::size_t index_of(int rank) noexcept {
    return static_cast<std::size_t>(rank);
}

[[nodiscard]] std::uint64_t bit_of(int rank) noexcept {
    return std::uint64_t{1} << (index_of(rank) % kRanksPerWord);
}

[[nodiscard]] SleeperWord& word_of(const LocalGroupParts& parts, int rank) noexcept {
    return parts.memory->sleepers()[index_of(rank) / kRanksPerWord];
}

void add_one(int wakeup) noexcept {
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then it is readable already.
    [[maybe_unused]] const auto written = ::write(wakeup, &one, sizeof one);
}

}  // namespace

int world_rank_of(const LocalGroupOptions& options, int local) {
    return options.world_ranks.empty() ? local
                                       : options.world_ranks.at(static_cast<std::size_t>(local));
}

pid_t launcher_of(const LocalGroupOptions& options) {
    return options.launcher != 0 ? options.launcher : ::getppid();
}

Result<UniqueFd> make_wakeup() {
    UniqueFd wakeup(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wakeup) {
        auto error = system_error("eventfd (see `ulimit -n`)", errno);
        error.code = Errc::unavailable;
        return error;
    }
    return wakeup;
}

Result<UniqueFd> open_pidfd(pid_t pid) {
    auto fd = hvd::open_pidfd(pid);
    if (!fd) {
        auto error = system_error("pidfd_open of process " + std::to_string(pid), errno);
        error.code = Errc::unavailable;
        return error;
    }
    return fd;
}

Status check_failures(FailureDetector*& failures) {
    if (failures == nullptr) {
        return ok();
    }
    const auto failure = failures->next_failure();
    if (!failure) {
        failures = nullptr;
        return ok();
    }
    return *failure ? Status(Error{Errc::unavailable, (*failure)->why}) : ok();
}

Result<std::unique_ptr<LocalGroup>> LocalGroup::form(const LocalGroupOptions& options,
                                                     Deadline deadline) {
    if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
        return Error{Errc::invalid_argument, "local rank " + std::to_string(options.rank) + " of " +
                                                 std::to_string(options.size)};
    }
    HVD_TRY(auto parts, options.rank == 0 ? GroupLeader(options, deadline).run()
                                          : GroupMember(options, deadline).run());
    return std::unique_ptr<LocalGroup>(new LocalGroup(std::move(parts)));
}

Result<std::vector<std::unique_ptr<LocalGroup>>> LocalGroup::among_threads(
    int size,
    std::span<const std::size_t> segments) {
    HVD_TRY(const auto fd, SharedMemory::create(size, segments));
    HVD_TRY(auto mapping, SharedMemory::map(fd.get(), size, segments));
    const auto memory = std::make_shared<SharedMemory>(std::move(mapping));
    std::vector<UniqueFd> wakeups;
    for (int rank = 0; rank < size; ++rank) {
        HVD_TRY(auto wakeup, make_wakeup());
        wakeups.push_back(std::move(wakeup));
    }
    std::vector<std::unique_ptr<LocalGroup>> groups;
    for (int rank = 0; rank < size; ++rank) {
        auto parts = std::make_unique<LocalGroupParts>();
        parts->rank = rank;
        parts->memory = memory;
        for (int peer = 0; peer < size; ++peer) {
            GroupPeer entry;
            entry.pid = ::getpid();
            entry.wakeup = UniqueFd(::fcntl(wakeups[index_of(peer)].get(), F_DUPFD_CLOEXEC, 0));
            HVD_TRY(entry.pidfd, open_pidfd(entry.pid));
            parts->peers.push_back(std::move(entry));
        }
        groups.push_back(std::unique_ptr<LocalGroup>(new LocalGroup(std::move(parts))));
    }
    return groups;
}

LocalGroup::LocalGroup(std::unique_ptr<LocalGroupParts> parts) : parts_(std::move(parts)) {}

LocalGroup::~LocalGroup() = default;

int LocalGroup::rank() const noexcept {
    return parts_->rank;
}

int LocalGroup::size() const noexcept {
    return static_cast<int>(parts_->peers.size());
}

pid_t LocalGroup::pid(int rank) const noexcept {
    return parts_->peers[index_of(rank)].pid;
}

std::span<std::byte> LocalGroup::segment(std::size_t index) const noexcept {
    return parts_->memory->segment(index);
}

int LocalGroup::memory_descriptor() const noexcept {
    return parts_->memory->descriptor();
}

std::size_t LocalGroup::memory_bytes() const noexcept {
    return parts_->memory->bytes();
}

int LocalGroup::peer_pidfd(int rank) const noexcept {
    HVD_ASSERT(rank != parts_->rank, "no rank watches itself");
    return parts_->peers[index_of(rank)].pidfd.get();
}

int LocalGroup::wakeup_descriptor() const noexcept {
    return parts_->peers[index_of(parts_->rank)].wakeup.get();
}

void LocalGroup::drain() const noexcept {
    std::uint64_t notifications = 0;
    [[maybe_unused]] const auto size =
        ::read(wakeup_descriptor(), &notifications, sizeof notifications);
}

// Sleeping and notifying are two sides of one agreement: the sleeper sets its bit and then looks
// for work, the notifier publishes work and then looks for the bit. With a full fence between the
// two steps on both sides, at least one of them sees the other.

void LocalGroup::about_to_sleep() noexcept {
    word_of(*parts_, parts_->rank).fetch_or(bit_of(parts_->rank), std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

void LocalGroup::awake() noexcept {
    word_of(*parts_, parts_->rank).fetch_and(~bit_of(parts_->rank), std::memory_order_relaxed);
}

void LocalGroup::notify(int rank) noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    auto& word = word_of(*parts_, rank);
    if ((word.load(std::memory_order_relaxed) & bit_of(rank)) == 0) {
        return;
    }
    // Only the caller that clears the bit notifies, so that many callers cost one system call.
    if ((word.fetch_and(~bit_of(rank), std::memory_order_acq_rel) & bit_of(rank)) != 0) {
        add_one(parts_->peers[index_of(rank)].wakeup.get());
    }
}

void LocalGroup::notify_others() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const auto words = parts_->memory->sleepers();
    for (std::size_t index = 0; index < words.size(); ++index) {
        auto asleep = words[index].load(std::memory_order_relaxed);
        for (; asleep != 0; asleep &= asleep - 1) {
            const auto rank = static_cast<int>(index * kRanksPerWord) + std::countr_zero(asleep);
            if (rank != parts_->rank) {
                notify(rank);
            }
        }
    }
}

void LocalGroup::notify_always(int rank) const noexcept {
    add_one(parts_->peers[index_of(rank)].wakeup.get());
}

void LocalGroup::notify_self() const noexcept {
    add_one(wakeup_descriptor());
}

}  // namespace hvd::coll
