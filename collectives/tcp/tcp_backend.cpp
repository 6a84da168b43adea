// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/host_grid.hpp"
#include "collectives/algorithms/schedules.hpp"
#include "collectives/host_backend.hpp"
#include "collectives/tcp/factory.hpp"
#include "collectives/tcp/hosts_allreduce.hpp"
#include "collectives/tcp/tcp_endpoint.hpp"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace hvd::coll::tcp {
namespace {

constexpr int kScore = 50;
constexpr std::size_t kFusionBytes = std::size_t{8} << 20;

/// State that the communicators of one backend share.
struct Shared {
    Shared(net::Mesh& mesh, SumOrder sums, std::shared_ptr<shm::HostMemory> host_memory)
        : order(sums), memory(std::move(host_memory)), multiplexer(mesh) {}

    SumOrder order;
    std::shared_ptr<shm::HostMemory> memory;  // nullptr: the ranks of a host share none
    Multiplexer multiplexer;
    ScratchPool scratch;
};

class TcpCommunicator final : public HostCommunicator {
public:
    TcpCommunicator(const Backend& backend, Shared& shared, const ProcessSet& set)
        : HostCommunicator(backend),
          shared_(shared),
          endpoint_(shared.multiplexer, set),
          hosts_(set.hosts),
          is_world_(set.id == 0) {
        auto grid =
            shared.memory && shared.order == SumOrder::any ? HostGrid::of(set) : std::nullopt;
        if (grid) {
            hosts_allreduce_.emplace(endpoint_, *shared.memory, set, *std::move(grid));
        }
    }

private:
    std::unique_ptr<Work> do_start(const Task& task) override {
        if (hosts_allreduce_ && HostsAllreduce::suits(task)) {
            return hosts_allreduce_->start(shared_.scratch, task);
        }
        return start_schedule(endpoint_, shared_.scratch, task, hosts_);
    }

    void do_abort(const Error& cause) override {
        endpoint_.abort(cause);
        if (hosts_allreduce_) {
            hosts_allreduce_->abort(cause);
        }
        if (is_world_) {
            shared_.multiplexer.mesh().stop_accepting();
        }
    }

    Shared& shared_;
    TcpEndpoint endpoint_;
    std::optional<HostsAllreduce> hosts_allreduce_;
    std::vector<int> hosts_;
    bool is_world_;
};

class TcpBackend final : public HostBackend {
public:
    TcpBackend(net::Mesh& mesh, SumOrder order, std::shared_ptr<shm::HostMemory> memory)
        : HostBackend({.name = "tcp", .score = kScore, .fusion_bytes = kFusionBytes}),
          shared_(mesh, order, std::move(memory)) {}

    [[nodiscard]] std::unique_ptr<Communicator> open(const ProcessSet& set,
                                                     Device /*device*/) override {
        return std::make_unique<TcpCommunicator>(*this, shared_, set);
    }

private:
    [[nodiscard]] bool serves(const Task&, const ProcessSet& set) const noexcept override {
        return set.size() > 1 || set.id == 0;
    }

    Shared shared_;
};

}  // namespace

std::unique_ptr<Backend> create(net::Mesh& mesh,
                                SumOrder order,
                                std::shared_ptr<shm::HostMemory> memory) {
    return std::make_unique<TcpBackend>(mesh, order, std::move(memory));
}

}  // namespace hvd::coll::tcp
