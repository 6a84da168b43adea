// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/algorithms/scratch.hpp"
#include "collectives/host_backend.hpp"
#include "collectives/shm/arena.hpp"
#include "collectives/shm/set_memory.hpp"
#include "collectives/shm/shm_endpoint.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace hvd::coll::shm {

class ShmCommunicator;

/// Which communicators have pages in their large slots. Those that have not moved a long tensor for
/// the longest time give them back, so that a set that is idle costs some pages.
class WarmList {
public:
    void use(ShmCommunicator& communicator);
    void forget(const ShmCommunicator& communicator) noexcept;

private:
    std::vector<ShmCommunicator*> recent_;  // the last one used last
};

/// State that the communicators of one backend share.
struct Shared {
    Shared(LocalGroup& the_group, std::span<std::byte> directory) noexcept
        : group(the_group), memory(the_group, directory) {}

    LocalGroup& group;
    SetMemory memory;
    ScratchPool scratch;
    WarmList warm;
};

class ShmCommunicator final : public HostCommunicator {
public:
    /// Of the world, in areas that are there. `shared` outlives it.
    ShmCommunicator(const Backend& backend, Shared& shared, std::span<RankArea> areas);

    /// Of a set, in areas that are found when the first task runs. `local_ranks` are the other
    /// members, as ranks of the group.
    ShmCommunicator(const Backend& backend,
                    Shared& shared,
                    ProcessSet set,
                    std::vector<int> local_ranks);
    ~ShmCommunicator() override;
    ShmCommunicator(const ShmCommunicator&) = delete;
    ShmCommunicator& operator=(const ShmCommunicator&) = delete;

    /// Gives the pages of the own large slots back. False while somebody may still read them.
    [[nodiscard]] bool cool() noexcept;

private:
    class FirstWork;
    class LongWork;

    std::unique_ptr<Work> do_start(const Task& task) override;
    void do_abort(const Error& cause) override;
    [[nodiscard]] bool find_areas();
    [[nodiscard]] std::unique_ptr<Work> begin(const Task& task);
    [[nodiscard]] std::unique_ptr<Work> begin_long(const Task& task, std::size_t bytes);

    Shared& shared_;
    ProcessSet set_;
    std::vector<int> local_ranks_;
    std::optional<SetAreas> areas_;
    std::optional<Arena> arena_;  // none before the first task of a set runs
    std::optional<ShmEndpoint> endpoint_;
    std::optional<Error> cause_;
    int long_works_ = 0;  // under way, of a set
};

}  // namespace hvd::coll::shm
