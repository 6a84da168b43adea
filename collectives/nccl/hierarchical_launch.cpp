// SPDX-License-Identifier: Apache-2.0
//
// A message goes in chunks, of as many parts as HostSplit says:
//
//   begin  pack the chunk; add it up inside the host, so that each member has its part; copy that
//          to pinned memory
//   cross  add the part up across the hosts, in that memory
//   end    copy it back; give the parts to all members of the host; unpack the chunk
//
// All but `cross` goes into the GPU's stream. There are two buffers, so that the stream begins a
// chunk while the one before crosses: begin 0, begin 1, end 0, begin 2, end 1, and so on, which is
// also the order of NCCL's calls on every member.
#include "collectives/nccl/hierarchical_launch.hpp"

#include "collectives/nccl/calls.hpp"
#include "collectives/nccl/reduction.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace hvd::coll::nccl {
namespace {

using cuda::Gpu;

constexpr std::uint64_t kAlignment = 16;  // of parts, in bytes

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t step) {
    return (value + step - 1) / step * step;
}

/// An average is the sum of all hosts, divided as it is unpacked; that of float16, which may not
/// hold the sum, as it is packed.
Reduction plan(const Task& task, const ProcessSet& set) {
    auto reduction = plan_reduction(task, set.size());
    if (reduction.op == ncclAvg) {
        reduction.op = ncclSum;
        auto& divided = reduction.wire == DataType::f16 ? reduction.pack : reduction.unpack;
        divided.divisor = set.size();
    }
    return reduction;
}

ReduceOp host_op(ncclRedOp_t op) {
    switch (op) {
        case ncclProd: return ReduceOp::product;
        case ncclMin: return ReduceOp::min;
        case ncclMax: return ReduceOp::max;
        default: return ReduceOp::sum;
    }
}

class HierarchicalLaunch final : public Launch {
public:
    HierarchicalLaunch(Task task, const ProcessSet& set, const AcrossHosts& across)
        : task_(std::move(task)),
          across_(across),
          reduction_(plan(task_, set)),
          wire_bytes_(size_of(reduction_.wire)) {
        crossing_task_.reduce = host_op(reduction_.op);
        // Booleans travel as bytes.
        crossing_task_.type = reduction_.wire == DataType::boolean ? DataType::u8 : reduction_.wire;
        crossing_task_.segments.resize(1);
    }
    HierarchicalLaunch(const HierarchicalLaunch&) = delete;
    HierarchicalLaunch& operator=(const HierarchicalLaunch&) = delete;

    /// An aborted Work ends at its next poll, so that nothing more is written for it. This launch
    /// has failed, and with it the set.
    ~HierarchicalLaunch() override {
        if (crossing_) {
            across_.host->abort({Errc::unavailable, "a collective of GPUs has failed"});
            (void)crossing_->poll();
        }
    }

    [[nodiscard]] bool has_room(Gpu& gpu) const override { return gpu.packer().has_room(2); }

    void call(Gpu& gpu, Connection& connection) override {
        for (const auto& segment : task_.segments) {
            places_.push_back({.tensor = nullptr, .offset = 0, .count = segment.count});
        }
        total_ = cuda::lay_out(places_, wire_bytes_);
        const auto parts = static_cast<std::uint64_t>(across_.split.parts);
        chunk_ = PinnedBuffers::kPartBytes / wire_bytes_ * parts;
        chunks_ = (total_ + chunk_ - 1) / chunk_;
        if (chunks_ == 0) {
            return;
        }
        const auto bytes = part_of(0) * parts * wire_bytes_;
        for (std::size_t slot = 0; slot < std::min<std::size_t>(chunks_, 2); ++slot) {
            slots_[slot].memory = gpu.memory().allocate(bytes);
        }
        begin_next(gpu, connection);
    }

    [[nodiscard]] Step next(Gpu& gpu, Connection& connection) override {
        end_call(gpu);
        cross();
        if (ended_ == chunks_) {
            return Step::over;
        }
        if (!gpu.packer().has_room(1)) {
            return Step::waits;
        }
        if (begun_ < std::min<std::size_t>(chunks_, ended_ + 2)) {
            begin_next(gpu, connection);
            return Step::called;
        }
        if (crossed_ == ended_) {
            return Step::waits;
        }
        end_next(gpu, connection);
        return Step::called;
    }

    void finish(Gpu& /*gpu*/) override {
        for (auto& slot : slots_) {
            slot.memory.reset();  // in the order of the stream
        }
    }

private:
    struct Slot {
        DeviceBytes memory;
        SharedEvent copied;  // the part is in pinned memory
    };

    enum class After { nothing, begin, end };

    [[nodiscard]] Slot& slot_of(std::size_t chunk) { return slots_[chunk % 2]; }

    /// Elements of a chunk.
    [[nodiscard]] std::uint64_t length_of(std::size_t chunk) const {
        return std::min(chunk_, total_ - chunk * chunk_);
    }

    /// Elements of each part of a chunk; what is beyond the chunk is nothing.
    [[nodiscard]] std::uint64_t part_of(std::size_t chunk) const {
        const auto parts = static_cast<std::uint64_t>(across_.split.parts);
        return rounded_up((length_of(chunk) + parts - 1) / parts,
                          std::max<std::uint64_t>(1, kAlignment / wire_bytes_));
    }

    /// Bytes of the parts before that of this member.
    [[nodiscard]] std::uint64_t own_offset(std::size_t chunk) const {
        const auto place = across_.split.is_scattered() ? across_.split.inside.place : 0;
        return static_cast<std::uint64_t>(place) * part_of(chunk) * wire_bytes_;
    }

    /// Elements of this member's part that are in the chunk.
    [[nodiscard]] std::uint64_t own_count(std::size_t chunk) const {
        const auto before = own_offset(chunk) / wire_bytes_;
        const auto length = length_of(chunk);
        return across_.split.has_part() && before < length
                   ? std::min(part_of(chunk), length - before)
                   : 0;
    }

    [[nodiscard]] std::byte* pinned_of(std::size_t chunk) const {
        return across_.pinned.data() + chunk % 2 * PinnedBuffers::kPartBytes;
    }

    /// Packs or unpacks what the tensors have in the chunk.
    void run_kernels(Gpu& gpu, std::size_t chunk, const cuda::PackChange& change, bool is_pack) {
        const auto begin = chunk * chunk_;
        const auto end = begin + length_of(chunk);
        std::vector<cuda::PackEntry> entries;
        for (std::size_t index = 0; index < places_.size(); ++index) {
            const auto& place = places_[index];
            const auto first = std::max<std::uint64_t>(begin, place.offset);
            const auto last = std::min<std::uint64_t>(end, place.offset + place.count);
            if (first >= last) {
                continue;
            }
            const auto& segment = task_.segments[index];
            // The kernel only reads the inputs.
            // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
            auto* const tensor = is_pack ? const_cast<std::byte*>(segment.in) : segment.out;
            entries.push_back({.tensor = tensor + (first - place.offset) * size_of(task_.type),
                               .offset = first - begin,
                               .count = last - first});
        }
        run_packer(gpu, change, is_pack, std::move(entries), slot_of(chunk).memory.get());
    }

    void begin_next(Gpu& gpu, Connection& connection) {
        const auto chunk = begun_++;
        run_kernels(gpu, chunk, reduction_.pack, true);
        const auto& library = connection.library();
        auto* const memory = slot_of(chunk).memory.get();
        const auto type = nccl_type(reduction_.wire);
        if (across_.split.is_scattered()) {
            connection.note(
                library.ncclReduceScatter(memory, memory + own_offset(chunk), part_of(chunk), type,
                                          reduction_.op, connection.handle(), connection.stream()),
                "ncclReduceScatter");
        } else {
            connection.note(library.ncclReduce(memory, memory, part_of(chunk), type, reduction_.op,
                                               0, connection.handle(), connection.stream()),
                            "ncclReduce");
        }
        after_ = After::begin;
    }

    void end_next(Gpu& gpu, Connection& connection) {
        const auto chunk = ended_++;
        auto* const memory = slot_of(chunk).memory.get();
        if (const auto count = own_count(chunk); count != 0) {
            check(gpu.driver(),
                  gpu.driver().cuMemcpyHtoDAsync(
                      reinterpret_cast<CUdeviceptr>(memory + own_offset(chunk)), pinned_of(chunk),
                      count * wire_bytes_, gpu.stream()),
                  "cuMemcpyHtoDAsync");
        }
        const auto& library = connection.library();
        const auto bytes = part_of(chunk) * wire_bytes_;
        if (across_.split.is_scattered()) {
            connection.note(
                library.ncclAllGather(memory + own_offset(chunk), memory, bytes, ncclInt8,
                                      connection.handle(), connection.stream()),
                "ncclAllGather");
        } else {
            connection.note(library.ncclBroadcast(memory, memory, bytes, ncclInt8, 0,
                                                  connection.handle(), connection.stream()),
                            "ncclBroadcast");
        }
        after_ = After::end;
    }

    /// Enqueues what follows the last call of NCCL, now that it is in the stream.
    void end_call(Gpu& gpu) {
        const auto after = std::exchange(after_, After::nothing);
        if (after == After::end) {
            run_kernels(gpu, ended_ - 1, reduction_.unpack, false);
        }
        if (after != After::begin) {
            return;
        }
        const auto chunk = begun_ - 1;
        auto& slot = slot_of(chunk);
        if (const auto count = own_count(chunk); count != 0) {
            check(gpu.driver(),
                  gpu.driver().cuMemcpyDtoHAsync(
                      pinned_of(chunk),
                      reinterpret_cast<CUdeviceptr>(slot.memory.get() + own_offset(chunk)),
                      count * wire_bytes_, gpu.stream()),
                  "cuMemcpyDtoHAsync");
            slot.copied = gpu.record(gpu.stream());
        }
        copied_ = begun_;
    }

    /// Takes this member's parts across the hosts, one after the other, as far as that goes now.
    void cross() {
        while (crossed_ < copied_) {
            const auto count = own_count(crossed_);
            if (count != 0 && !has_crossed(count)) {
                return;
            }
            ++crossed_;
        }
    }

    [[nodiscard]] bool has_crossed(std::uint64_t count) {
        if (!crossing_) {
            if (!slot_of(crossed_).copied->is_complete()) {
                return false;
            }
            auto* const part = pinned_of(crossed_);
            crossing_task_.segments.front() = {.in = part, .out = part, .count = count};
            crossing_ = value_of(across_.host->start(crossing_task_));
        }
        if (value_of(crossing_->poll()) != Work::Progress::done) {
            return false;
        }
        crossing_.reset();
        return true;
    }

    template <class T>
    [[nodiscard]] static T value_of(Result<T> result) {
        if (!result) {
            throw Exception(std::move(result).error());
        }
        return std::move(result).value();
    }

    Task task_;
    const AcrossHosts& across_;
    Reduction reduction_;
    std::size_t wire_bytes_;               // of an element
    Task crossing_task_;                   // of the host, for each chunk
    std::vector<cuda::PackEntry> places_;  // of the segments, in elements of the message
    std::uint64_t total_ = 0;              // elements of the message
    std::uint64_t chunk_ = 0;              // elements of a chunk
    std::size_t chunks_ = 0;
    std::array<Slot, 2> slots_{};
    std::size_t begun_ = 0;  // chunks, as are the next three
    std::size_t copied_ = 0;
    std::size_t crossed_ = 0;
    std::size_t ended_ = 0;
    After after_ = After::nothing;
    std::unique_ptr<Work> crossing_;
};

}  // namespace

std::unique_ptr<Launch> plan_hierarchical(const Task& task,
                                          const ProcessSet& set,
                                          const AcrossHosts& across) {
    return std::make_unique<HierarchicalLaunch>(task, set, across);
}

}  // namespace hvd::coll::nccl
