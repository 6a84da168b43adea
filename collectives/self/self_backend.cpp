// SPDX-License-Identifier: Apache-2.0
#include "collectives/done_work.hpp"
#include "collectives/host_backend.hpp"
#include "collectives/reduce/adasum.hpp"
#include "collectives/reduce/reducer.hpp"
#include "collectives/self/factory.hpp"

#include <cstring>
#include <vector>

namespace hvd::coll::self {
namespace {

constexpr std::size_t kFusionBytes = std::size_t{1} << 20;

class SelfCommunicator final : public HostCommunicator {
public:
    explicit SelfCommunicator(const Backend& backend) : HostCommunicator(backend) {}

private:
    std::unique_ptr<Work> do_start(const Task& task) override {
        if (task.op == Op::allreduce && is_adasum(task.reduce)) {
            adapt(task);
        } else if (task.op == Op::allreduce || task.op == Op::reducescatter) {
            const Reducer reducer(task, 1);
            for (const auto& segment : task.segments) {
                reducer.run({&segment.in, 1}, {&segment.out, 1}, segment.count);
            }
        } else {
            for (const auto& segment : task.segments) {
                const auto count =
                    task.op == Op::alltoall ? segment.send_counts.front() : segment.count;
                copy(segment, count * size_of(task.type));
            }
        }
        return std::make_unique<DoneWork>();
    }

    /// There is nothing to add, but factors to apply.
    static void adapt(const Task& task) {
        const Adasum adasum(task);
        std::vector<std::byte> work;
        for (const auto& segment : task.segments) {
            work.resize(segment.count * adasum.work_bytes());
            adasum.widen(segment.in, work.data(), segment.count);
            adasum.narrow(work.data(), segment.out, segment.count);
        }
    }

    static void copy(const Segment& segment, std::size_t bytes) {
        if (segment.in != segment.out && bytes != 0) {
            std::memcpy(segment.out, segment.in, bytes);
        }
    }

    void do_abort(const Error&) override {}  // nothing is ever in flight
};

class SelfBackend final : public HostBackend {
public:
    SelfBackend() : HostBackend({.name = "self", .score = 1, .fusion_bytes = kFusionBytes}) {}

    [[nodiscard]] bool is_like_local_result() const noexcept override { return true; }

    [[nodiscard]] std::unique_ptr<Communicator> open(const ProcessSet&, Device) override {
        return std::make_unique<SelfCommunicator>(*this);
    }

private:
    [[nodiscard]] bool serves(const Task&, const ProcessSet& set) const noexcept override {
        return set.size() == 1;
    }
};

}  // namespace

std::unique_ptr<Backend> create() {
    return std::make_unique<SelfBackend>();
}

}  // namespace hvd::coll::self
