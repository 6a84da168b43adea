// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/adasum_launch.hpp"

#include "collectives/algorithms/adasum_tree.hpp"
#include "collectives/cuda/adasum_kernels.hpp"
#include "collectives/nccl/calls.hpp"
#include "collectives/reduce/adasum.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace hvd::coll::nccl {
namespace {

class AdasumLaunch final : public Launch {
public:
    AdasumLaunch(Task task, const ProcessSet& set)
        : task_(std::move(task)),
          tree_(set.size(), set.place),
          type_(Adasum(task_).work_bytes() == sizeof(double) ? DataType::f64 : DataType::f32) {}

    [[nodiscard]] bool has_room(cuda::Gpu& gpu) const override { return gpu.packer().has_room(3); }

    void call(cuda::Gpu& gpu, Connection& /*connection*/) override {
        for (const auto& segment : task_.segments) {
            places_.push_back({.tensor = nullptr, .offset = 0, .count = segment.count});
        }
        total_ = cuda::lay_out(places_, size_of(type_));
        own_ = gpu.memory().allocate(total_ * size_of(type_));
        other_ = gpu.memory().allocate(total_ * size_of(type_));
        run_pack(gpu, {.from = task_.type, .to = type_, .factor = task_.prescale}, true);
        kernels_.emplace(gpu, type_, places_);
    }

    [[nodiscard]] Step next(cuda::Gpu& /*gpu*/, Connection& connection) override {
        if (total_ == 0) {
            return Step::over;
        }
        if (std::exchange(has_received_, false)) {
            // Both members of a pair get the same bits: it is their sum whichever is the left one.
            kernels_->combine(own_.get(), other_.get(), own_.get());
        }
        while (step_ < tree_.levels() + 2) {
            if (exchange(step_++, connection)) {
                return Step::called;
            }
        }
        return Step::over;
    }

    void finish(cuda::Gpu& gpu) override {
        kernels_->finish();
        run_pack(gpu, {.from = type_, .to = task_.type, .factor = task_.postscale}, false);
        own_.reset();  // in the order of the stream
        other_.reset();
    }

private:
    /// Step 0 combines neighbours where members are no power of two, the last one gives the others
    /// of these pairs the result. False where this member has no part in it.
    bool exchange(int step, Connection& connection) {
        const bool is_first = step == 0;
        if (is_first || step > tree_.levels()) {
            if (!tree_.is_folded()) {
                return false;
            }
            if (is_first == tree_.is_left_out()) {
                send(tree_.neighbour(), connection);
            } else {
                receive(tree_.neighbour(), is_first ? other_.get() : own_.get(), connection);
                has_received_ = is_first;
            }
            return true;
        }
        if (tree_.is_left_out()) {
            return false;
        }
        const int level = step - 1;
        in_group(connection, [&] {
            send(tree_.partner(level), connection);
            receive(tree_.partner(level), other_.get(), connection);
        });
        has_received_ = true;
        return true;
    }

    void send(int peer, Connection& connection) const {
        connection.note(connection.library().ncclSend(own_.get(), total_, nccl_type(type_), peer,
                                                      connection.handle(), connection.stream()),
                        "ncclSend");
    }

    void receive(int peer, std::byte* to, Connection& connection) const {
        connection.note(connection.library().ncclRecv(to, total_, nccl_type(type_), peer,
                                                      connection.handle(), connection.stream()),
                        "ncclRecv");
    }

    void run_pack(cuda::Gpu& gpu, const cuda::PackChange& change, bool is_pack) const {
        auto entries = places_;
        for (std::size_t index = 0; index < entries.size(); ++index) {
            const auto& segment = task_.segments[index];
            // The kernel only reads the inputs.
            // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
            entries[index].tensor = is_pack ? const_cast<std::byte*>(segment.in) : segment.out;
        }
        run_packer(gpu, change, is_pack, std::move(entries), own_.get());
    }

    Task task_;
    AdasumTree tree_;
    DataType type_;  // of both gradients
    std::vector<cuda::PackEntry> places_;
    std::uint64_t total_ = 0;  // elements of a gradient
    DeviceBytes own_;
    DeviceBytes other_;
    std::optional<cuda::AdasumKernels> kernels_;
    int step_ = 0;
    bool has_received_ = false;  // a gradient in `other_`, to be combined
};

}  // namespace

std::unique_ptr<Launch> plan_adasum(const Task& task, const ProcessSet& set) {
    return std::make_unique<AdasumLaunch>(task, set);
}

}  // namespace hvd::coll::nccl
