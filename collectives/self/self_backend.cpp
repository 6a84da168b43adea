// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/cpu_reduce.hpp"
#include "collectives/done_work.hpp"
#include "collectives/host_backend.hpp"
#include "collectives/self/factory.hpp"

#include <cstring>

namespace hvd::coll::self {
namespace {

constexpr std::size_t kFusionBytes = std::size_t{1} << 20;

class SelfCommunicator final : public HostCommunicator {
public:
    explicit SelfCommunicator(const Backend& backend) : HostCommunicator(backend) {}

private:
    std::unique_ptr<Work> do_start(const Task& task) override {
        if (task.op == Op::allreduce) {
            const Reducer reducer(task, 1);
            for (const auto& segment : task.segments) {
                reducer.run({&segment.in, 1}, {&segment.out, 1}, segment.count);
            }
        } else {
            for (const auto& segment : task.segments) {
                copy(segment, size_of(task.type));
            }
        }
        return std::make_unique<DoneWork>();
    }

    static void copy(const Segment& segment, std::size_t element_bytes) {
        if (segment.in != segment.out && segment.count != 0) {
            std::memcpy(segment.out, segment.in, segment.count * element_bytes);
        }
    }

    void do_abort(const Error&) override {}  // nothing is ever in flight
};

class SelfBackend final : public HostBackend {
public:
    SelfBackend() : HostBackend({.name = "self", .score = 1, .fusion_bytes = kFusionBytes}) {}

    [[nodiscard]] std::unique_ptr<Communicator> open(const ProcessSet&) override {
        return std::make_unique<SelfCommunicator>(*this);
    }

private:
    [[nodiscard]] bool serves(const ProcessSet& set) const noexcept override {
        return set.size() == 1;
    }
};

}  // namespace

std::unique_ptr<Backend> create() {
    return std::make_unique<SelfBackend>();
}

}  // namespace hvd::coll::self
