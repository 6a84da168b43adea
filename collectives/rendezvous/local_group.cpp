// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/local_group.hpp"

#include "collectives/base/assert.hpp"
#include "collectives/rendezvous/local_parts.hpp"

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
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

void ring_bell(int bell) noexcept {
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then the bell is ringing already.
    [[maybe_unused]] const auto written = ::write(bell, &one, sizeof one);
}

}  // namespace

Result<UniqueFd> make_bell() {
    UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell) {
        auto error = system_error("eventfd (see `ulimit -n`)", errno);
        error.code = Errc::unavailable;
        return error;
    }
    return bell;
}

Result<UniqueFd> open_pidfd(pid_t pid) {
    // Close-on-exec by itself.
    UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!fd) {
        auto error = system_error("pidfd_open of process " + std::to_string(pid), errno);
        error.code = Errc::unavailable;
        return error;
    }
    return fd;
}

Status hear(PeerNews*& news) {
    if (news == nullptr) {
        return ok();
    }
    const auto loss = news->next_loss();
    if (!loss) {
        news = nullptr;
        return ok();
    }
    return *loss ? Status(Error{Errc::unavailable, (*loss)->why}) : ok();
}

Result<std::unique_ptr<LocalGroup>> LocalGroup::meet(const LocalMeeting& meeting,
                                                     Deadline deadline) {
    if (meeting.local_size < 1 || meeting.local_rank < 0 ||
        meeting.local_rank >= meeting.local_size) {
        return Error{Errc::invalid_argument, "local rank " + std::to_string(meeting.local_rank) +
                                                 " of " + std::to_string(meeting.local_size)};
    }
    HVD_TRY(auto parts, meeting.local_rank == 0 ? meet_as_leader(meeting, deadline)
                                                : meet_as_member(meeting, deadline));
    return std::unique_ptr<LocalGroup>(new LocalGroup(std::move(parts)));
}

Result<std::vector<std::unique_ptr<LocalGroup>>> LocalGroup::among_threads(
    int size,
    std::span<const std::size_t> segments) {
    HVD_TRY(const auto fd, SharedMemory::create(size, segments));
    HVD_TRY(auto mapping, SharedMemory::map(fd.get(), size, segments));
    const auto memory = std::make_shared<SharedMemory>(std::move(mapping));
    std::vector<UniqueFd> bells;
    for (int rank = 0; rank < size; ++rank) {
        HVD_TRY(auto bell, make_bell());
        bells.push_back(std::move(bell));
    }
    std::vector<std::unique_ptr<LocalGroup>> groups;
    for (int rank = 0; rank < size; ++rank) {
        auto parts = std::make_unique<LocalGroupParts>();
        parts->rank = rank;
        parts->memory = memory;
        for (int peer = 0; peer < size; ++peer) {
            LocalMember member;
            member.pid = ::getpid();
            member.bell = UniqueFd(::fcntl(bells[index_of(peer)].get(), F_DUPFD_CLOEXEC, 0));
            HVD_TRY(member.pidfd, open_pidfd(member.pid));
            parts->members.push_back(std::move(member));
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
    return static_cast<int>(parts_->members.size());
}

pid_t LocalGroup::pid(int rank) const noexcept {
    return parts_->members[index_of(rank)].pid;
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
    return parts_->members[index_of(rank)].pidfd.get();
}

int LocalGroup::bell() const noexcept {
    return parts_->members[index_of(parts_->rank)].bell.get();
}

void LocalGroup::hush() const noexcept {
    std::uint64_t rings = 0;
    [[maybe_unused]] const auto size = ::read(bell(), &rings, sizeof rings);
}

// Sleeping and ringing are two sides of one agreement: the sleeper sets its bit and then looks for
// work, the ringer publishes work and then looks for the bit. With a full fence between the two
// steps on both sides, at least one of them sees the other.

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
    // Who takes the bit away rings, so that many ringers cost one system call.
    if ((word.fetch_and(~bit_of(rank), std::memory_order_acq_rel) & bit_of(rank)) != 0) {
        ring_bell(parts_->members[index_of(rank)].bell.get());
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

void LocalGroup::ring(int rank) const noexcept {
    ring_bell(parts_->members[index_of(rank)].bell.get());
}

void LocalGroup::ring_self() const noexcept {
    ring_bell(bell());
}

}  // namespace hvd::coll
