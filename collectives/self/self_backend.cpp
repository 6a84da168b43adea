// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/cpu_reduce.hpp"
#include "collectives/done_work.hpp"
#include "collectives/self/factory.hpp"

#include <cstring>
#include <vector>

namespace hvd::coll::self {
namespace {

constexpr std::size_t kFusionBytes = std::size_t{1} << 20;

class SelfBackend final : public Backend {
public:
    [[nodiscard]] std::string_view name() const noexcept override { return "self"; }
    [[nodiscard]] int score(const Task& task) const noexcept override {
        return task.device.is_host() ? 1 : 0;
    }
    [[nodiscard]] bool gathers(const Task&) const noexcept override { return true; }
    [[nodiscard]] std::span<std::byte> workspace(std::size_t bytes) override {
        workspace_.resize(bytes);
        return workspace_;
    }
    [[nodiscard]] std::size_t fusion_bytes() const noexcept override { return kFusionBytes; }

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

    std::vector<std::byte> workspace_;
};

}  // namespace

std::unique_ptr<Backend> create() {
    return std::make_unique<SelfBackend>();
}

}  // namespace hvd::coll::self
