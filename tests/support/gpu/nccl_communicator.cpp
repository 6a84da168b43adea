// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/nccl_communicator.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" hvd::test::gpu::Control* hvd_fake_cuda();

namespace hvd::test::gpu {
namespace {

using Phase = CommunicatorState::Phase;

/// By device: the group that runs there. Thread: the one of the streams.
std::map<int, const void*>& residents() {
    static auto& map = *new std::map<int, const void*>;
    return map;
}

bool all_of(const CommunicatorState& comm, std::atomic<std::uint32_t> RankArea::*flag) {
    const auto& areas = (*comm.segment)->areas;
    return std::all_of(areas.begin(), areas.begin() + comm.ranks,
                       [&](const RankArea& area) { return (area.*flag).load() != 0; });
}

bool has_dead_peer(const CommunicatorState& comm) {
    const auto& areas = (*comm.segment)->areas;
    return std::any_of(areas.begin(), areas.begin() + comm.ranks, [](const RankArea& area) {
        const auto pid = area.pid.load();
        if (pid == 0) {
            return false;
        }
        const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
        pollfd ended{process.get(), POLLIN, 0};
        return !process || ::poll(&ended, 1, 0) == 1;
    });
}

}  // namespace

std::size_t CommunicatorState::place_in_registered(const std::byte* address) const {
    for (const auto& each : registrations) {
        if (address >= each->memory && address < each->memory + each->bytes) {
            return static_cast<std::size_t>(address - each->memory) + 1;
        }
    }
    return 0;
}

NcclState::NcclState() : cuda_(hvd_fake_cuda()) {}

std::optional<ncclResult_t> NcclState::begin(const char* function, bool may_synchronise) {
    if (const auto injected = calls_.call(function)) {
        return injected;
    }
    if (may_synchronise && cuda_->has_collectives()) {
        cuda_->report(std::string(function) +
                      " may synchronise the device while a collective is in flight");
    }
    return std::nullopt;
}

std::vector<std::string> NcclState::leaks() const {
    std::vector<std::string> leaks;
    const auto add = [&](std::size_t count, const char* name) {
        if (count != 0) {
            leaks.push_back(std::to_string(count) + " " + name);
        }
    };
    add(static_cast<std::size_t>(communicators.load()), "communicator(s)");
    const std::lock_guard lock(mutex_);
    add(blocks_.size(), "allocation(s)");
    for (const auto& [memory, block] : blocks_) {
        add(static_cast<std::size_t>(block.registrations), "registration(s)");
    }
    add(Segment::held_ids(), "unique id(s)");
    return leaks;
}

void* NcclState::allocate(std::size_t bytes) {
    void* const memory = cuda_->allocate(bytes);
    const std::lock_guard lock(mutex_);
    blocks_[memory] = {.bytes = bytes};
    return memory;
}

void NcclState::free(void* memory) {
    {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(memory);
        if (found == blocks_.end()) {
            cuda_->report("ncclMemFree of what ncclMemAlloc has not given");
            return;
        }
        if (found->second.registrations != 0) {
            cuda_->report("memory is freed while it is registered");
        }
        blocks_.erase(found);
    }
    cuda_->free(memory);
}

bool NcclState::is_allocated(const void* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(memory);
    return found != blocks_.end() && bytes <= found->second.bytes;
}

void NcclState::count_registration(const void* memory, int change) {
    const std::lock_guard lock(mutex_);
    if (const auto found = blocks_.find(memory); found != blocks_.end()) {
        found->second.registrations += change;
    }
}

void NcclState::enqueue(const std::shared_ptr<CommunicatorState>& comm) {
    for (auto& group : std::exchange(comm->waiting, {})) {
        ++comm->in_flight;
        auto run =
            std::make_shared<GroupRun>(Place{*comm->segment, comm->rank, comm->ranks, comm->rounds},
                                       std::move(group.operations));
        cuda_->enqueue(
            group.stream,
            [this, comm, run](const Touch& touch) {
                auto& resident = residents()[comm->device];
                const bool is_aborted = comm->is_aborted.load();
                if (resident != nullptr && resident != run.get()) {
                    comm->in_flight -= is_aborted ? 1 : 0;
                    return is_aborted;  // else: a collective keeps the device to itself
                }
                std::string what_is_wrong;
                const bool is_over = is_aborted || run->step(touch, what_is_wrong);
                if (!what_is_wrong.empty()) {
                    cuda_->report(what_is_wrong);
                }
                resident = is_over ? nullptr : run.get();
                comm->in_flight -= is_over ? 1 : 0;
                return is_over;
            },
            true);
    }
}

ncclResult_t NcclState::start_group(const std::shared_ptr<CommunicatorState>& comm,
                                    std::vector<CommunicatorState::Waiting> groups) {
    if (comm->phase != Phase::ready) {
        cuda_->report("a communicator is used while a call of it is in progress");
        return ncclInvalidUsage;
    }
    comm->waiting = std::move(groups);
    ++comm->groups;
    const bool is_first = !std::exchange(comm->is_connected, true);
    const int slow = slow_every_.load();
    if (!comm->is_blocking && (is_first || (slow != 0 && comm->groups % slow == 0))) {
        (*comm->segment)->areas[static_cast<std::size_t>(comm->rank)].is_connected = 1;
        comm->phase = is_first ? Phase::connecting : Phase::busy;
        return ncclInProgress;
    }
    enqueue(comm);
    return ncclSuccess;
}

ncclResult_t NcclState::poll(const std::shared_ptr<CommunicatorState>& comm) {
    if (const auto error = async_error_.load(); error != ncclSuccess) {
        return error;
    }
    if (notices_dead_peers_ && has_dead_peer(*comm)) {
        return ncclRemoteError;
    }
    switch (comm->phase) {
        case Phase::starting:
            if (!all_of(*comm, &RankArea::is_attached)) {
                return ncclInProgress;
            }
            comm->phase = Phase::ready;
            break;
        case Phase::connecting:
            if (!all_of(*comm, &RankArea::is_connected)) {
                return ncclInProgress;
            }
            [[fallthrough]];
        case Phase::busy:
            enqueue(comm);
            comm->phase = Phase::ready;
            break;
        case Phase::finalizing:
            if (comm->in_flight.load() != 0 || !all_of(*comm, &RankArea::is_finalized)) {
                return ncclInProgress;
            }
            comm->phase = Phase::finalized;
            break;
        case Phase::ready:
        case Phase::finalized: break;
    }
    return ncclSuccess;
}

NcclState& nccl_state() {
    static auto& only = *new NcclState;
    return only;
}

}  // namespace hvd::test::gpu
