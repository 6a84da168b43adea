// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/launch.hpp"

#include "collectives/nccl/adasum_launch.hpp"
#include "collectives/nccl/calls.hpp"
#include "collectives/nccl/reduction.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

namespace hvd::coll::nccl {
namespace {

using cuda::Gpu;
using cuda::PackChange;
using cuda::PackEntry;

bool are_equal(std::span<const std::size_t> counts) {
    return std::ranges::adjacent_find(counts, std::ranges::not_equal_to{}) == counts.end();
}

/// Of tensors that travel as they are, from and to where they are.
class DirectLaunch final : public Launch {
public:
    DirectLaunch(Task task, const ProcessSet& set, const Reduction& reduction)
        : task_(std::move(task)), size_(set.size()), place_(set.place), reduction_(reduction) {}

    void call(Gpu& /*gpu*/, Connection& connection) override {
        if (task_.segments.size() == 1 && is_one_call(task_.segments.front())) {
            run(connection, task_.segments.front());
            return;
        }
        in_group(connection, [&] {
            for (const auto& segment : task_.segments) {
                run(connection, segment);
            }
        });
    }

private:
    [[nodiscard]] bool is_one_call(const Segment& segment) const {
        switch (task_.op) {
            case Op::allgather:
            case Op::reducescatter: return are_equal(segment.counts);
            case Op::alltoall: return false;
            default: return true;
        }
    }

    void run(Connection& connection, const Segment& segment) const {
        switch (task_.op) {
            case Op::allreduce: allreduce(connection, segment); break;
            case Op::broadcast: broadcast(connection, segment); break;
            case Op::allgather: allgather(connection, segment); break;
            case Op::reducescatter: reducescatter(connection, segment); break;
            case Op::alltoall: alltoall(connection, segment); break;
            case Op::barrier: break;
        }
    }

    [[nodiscard]] std::size_t bytes(std::size_t count) const { return count * size_of(task_.type); }

    void allreduce(Connection& connection, const Segment& segment) const {
        connection.note(connection.library().ncclAllReduce(
                            segment.in, segment.out, segment.count, nccl_type(reduction_.wire),
                            reduction_.op, connection.handle(), connection.stream()),
                        "ncclAllReduce");
    }

    void broadcast(Connection& connection, const Segment& segment) const {
        connection.note(connection.library().ncclBroadcast(
                            segment.in, segment.out, bytes(segment.count), ncclInt8, task_.root,
                            connection.handle(), connection.stream()),
                        "ncclBroadcast");
    }

    void allgather(Connection& connection, const Segment& segment) const {
        const auto& library = connection.library();
        if (are_equal(segment.counts)) {
            connection.note(
                library.ncclAllGather(segment.in, segment.out, bytes(segment.count), ncclInt8,
                                      connection.handle(), connection.stream()),
                "ncclAllGather");
            return;
        }
        auto* out = segment.out;
        for (int from = 0; from < size_; ++from) {
            const auto part = bytes(segment.counts[static_cast<std::size_t>(from)]);
            if (part != 0) {
                // Others than the root do not read `in`.
                const auto* const in = from == place_ ? segment.in : out;
                connection.note(library.ncclBroadcast(in, out, part, ncclInt8, from,
                                                      connection.handle(), connection.stream()),
                                "ncclBroadcast");
            }
            out += part;
        }
    }

    void reducescatter(Connection& connection, const Segment& segment) const {
        const auto& library = connection.library();
        const auto type = nccl_type(reduction_.wire);
        if (are_equal(segment.counts)) {
            connection.note(
                library.ncclReduceScatter(segment.in, segment.out, segment.counts.front(), type,
                                          reduction_.op, connection.handle(), connection.stream()),
                "ncclReduceScatter");
            return;
        }
        const auto* in = segment.in;
        for (int to = 0; to < size_; ++to) {
            const auto count = segment.counts[static_cast<std::size_t>(to)];
            if (count != 0) {
                connection.note(
                    library.ncclReduce(in, to == place_ ? segment.out : nullptr, count, type,
                                       reduction_.op, to, connection.handle(), connection.stream()),
                    "ncclReduce");
            }
            in += bytes(count);
        }
    }

    void alltoall(Connection& connection, const Segment& segment) const {
        const auto& library = connection.library();
        const auto* in = segment.in;
        auto* out = segment.out;
        for (int peer = 0; peer < size_; ++peer) {
            const auto sent = bytes(segment.send_counts[static_cast<std::size_t>(peer)]);
            const auto received = bytes(segment.counts[static_cast<std::size_t>(peer)]);
            if (sent != 0) {
                connection.note(library.ncclSend(in, sent, ncclInt8, peer, connection.handle(),
                                                 connection.stream()),
                                "ncclSend");
            }
            if (received != 0) {
                connection.note(library.ncclRecv(out, received, ncclInt8, peer, connection.handle(),
                                                 connection.stream()),
                                "ncclRecv");
            }
            in += sent;
            out += received;
        }
    }

    Task task_;
    int size_;
    int place_;
    Reduction reduction_;  // of a task that reduces
};

/// Of reductions that go through a buffer: several tensors at once, or values that change. Which
/// buffer follows from the size, so that all ranks pass registered memory to NCCL, or none does.
class PackedLaunch final : public Launch {
public:
    PackedLaunch(Task task, const ProcessSet& set, const Reduction& reduction)
        : task_(std::move(task)), place_(set.place), size_(set.size()), reduction_(reduction) {}

    [[nodiscard]] bool has_room(Gpu& gpu) const override { return gpu.packer().has_room(2); }

    void call(Gpu& gpu, Connection& connection) override {
        const auto wire_bytes = size_of(reduction_.wire);
        std::vector<PackEntry> places;
        places.reserve(task_.segments.size());
        for (const auto& segment : task_.segments) {
            places.push_back({.tensor = nullptr, .offset = 0, .count = segment.count});
        }
        const auto total = cuda::lay_out(places, wire_bytes);
        for (const auto& place : places) {
            offsets_.push_back(place.offset);
        }
        fused_ = connection.registered().data();
        if (connection.registered().size() < total * wire_bytes) {
            buffer_ = gpu.memory().allocate(total * wire_bytes);
            fused_ = buffer_.get();
        }
        run_kernels(gpu, reduction_.pack, true);
        const auto type = nccl_type(reduction_.wire);
        if (task_.op == Op::allreduce) {
            connection.note(
                connection.library().ncclAllReduce(fused_, fused_, total, type, reduction_.op,
                                                   connection.handle(), connection.stream()),
                "ncclAllReduce");
            return;
        }
        in_group(connection, [&] { reduce_parts(connection); });
    }

    void finish(Gpu& gpu) override {
        run_kernels(gpu, reduction_.unpack, false);
        buffer_.reset();  // in the order of the stream
    }

private:
    /// A reducescatter: each member gets its part of each tensor, where the part lies in the
    /// buffer.
    void reduce_parts(Connection& connection) {
        const auto wire_bytes = size_of(reduction_.wire);
        for (std::size_t index = 0; index < task_.segments.size(); ++index) {
            auto* part = fused_ + offsets_[index] * wire_bytes;
            for (int to = 0; to < size_; ++to) {
                const auto count = task_.segments[index].counts[static_cast<std::size_t>(to)];
                if (count != 0) {
                    connection.note(
                        connection.library().ncclReduce(
                            part, part, count, nccl_type(reduction_.wire), reduction_.op, to,
                            connection.handle(), connection.stream()),
                        "ncclReduce");
                }
                part += count * wire_bytes;
            }
        }
    }

    /// Where the tensor of a segment lies, and where in the buffer, in elements.
    [[nodiscard]] PackEntry entry_of(std::size_t index, bool is_pack) const {
        const auto& segment = task_.segments[index];
        if (is_pack) {
            // The kernel only reads it.
            // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
            auto* const in = const_cast<std::byte*>(segment.in);
            return {.tensor = in, .offset = offsets_[index], .count = segment.count};
        }
        if (task_.op == Op::allreduce) {
            return {.tensor = segment.out, .offset = offsets_[index], .count = segment.count};
        }
        const auto own = static_cast<std::ptrdiff_t>(place_);
        const auto before =
            std::accumulate(segment.counts.begin(), segment.counts.begin() + own, std::size_t{0});
        return {.tensor = segment.out,
                .offset = offsets_[index] + before,
                .count = segment.counts[static_cast<std::size_t>(place_)]};
    }

    void run_kernels(Gpu& gpu, const PackChange& change, bool is_pack) const {
        std::vector<PackEntry> entries;
        entries.reserve(task_.segments.size());
        for (std::size_t index = 0; index < task_.segments.size(); ++index) {
            entries.push_back(entry_of(index, is_pack));
        }
        run_packer(gpu, change, is_pack, std::move(entries), fused_);
    }

    Task task_;
    int place_;
    int size_;
    Reduction reduction_;
    std::byte* fused_ = nullptr;          // registered memory, which is the same on all ranks, or
    DeviceBytes buffer_;                  // for what is larger
    std::vector<std::uint64_t> offsets_;  // of each segment, in elements of the buffer
};

}  // namespace

std::unique_ptr<Launch> plan_launch(const Task& task, const ProcessSet& set) {
    if (task.op == Op::allreduce && task.reduce == ReduceOp::adasum) {
        return plan_adasum(task, set);
    }
    const bool reduces = task.op == Op::allreduce || task.op == Op::reducescatter;
    const auto reduction = reduces ? plan_reduction(task, set.size()) : Reduction();
    if (reduces &&
        (!reduction.is_plain() || (task.op == Op::allreduce && task.segments.size() > 1))) {
        return std::make_unique<PackedLaunch>(task, set, reduction);
    }
    return std::make_unique<DirectLaunch>(task, set, reduction);
}

}  // namespace hvd::coll::nccl
