// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/task_builder.hpp"

#include "collectives/reduce/narrowing.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

namespace hvd::rt {
namespace {

void set_elements(std::span<const std::int64_t> rows,
                  std::size_t row,
                  std::vector<std::size_t>& elements) {
    for (const auto count : rows) {
        elements.push_back(static_cast<std::size_t>(count) * row);
    }
}

/// The segment's lists keep the memory that they have had for another task.
void set_counts(const Operation& operation, const coll::ProcessSet& set, coll::Segment& segment) {
    segment.counts.clear();
    segment.send_counts.clear();
    const auto& signature = operation.signature;
    if (signature.op == coll::Op::allreduce) {
        return;
    }
    const auto row = row_elements(signature.shape);
    if (signature.op == coll::Op::allgather) {
        set_elements(operation.first_dims, row, segment.counts);
    } else if (signature.op == coll::Op::alltoall) {
        set_elements(operation.received_splits, row, segment.counts);
        set_elements(signature.splits, row, segment.send_counts);
    } else if (signature.op == coll::Op::reducescatter) {
        for (int place = 0; place < set.size(); ++place) {
            segment.counts.push_back(static_cast<std::size_t>(share_of_rows(signature.shape.front(),
                                                                            place, set.size())) *
                                     row);
        }
    }
}

int place_of(int rank, const coll::ProcessSet& set) {
    return static_cast<int>(std::ranges::find(set.ranks, rank) - set.ranks.begin());
}

/// Elements of the members before `place`.
std::size_t elements_before(std::span<const std::size_t> counts, int place) {
    const auto before = counts.first(static_cast<std::size_t>(place));
    return std::accumulate(before.begin(), before.end(), std::size_t{0});
}

/// Writes the result of a reduction whose values were rounded on the way.
void unpack_narrow(const std::byte* from, const Operation& operation, const coll::ProcessSet& set) {
    const auto& signature = operation.signature;
    std::size_t before = 0;
    std::size_t count = element_count(signature.shape);
    if (signature.op == coll::Op::reducescatter) {
        const auto rows = signature.shape.front();
        const auto row = row_elements(signature.shape);
        before = static_cast<std::size_t>(rows_before(rows, set.place, set.size())) * row;
        count = static_cast<std::size_t>(share_of_rows(rows, set.place, set.size())) * row;
    }
    const auto element_bytes = coll::size_of(wire_type(signature.type, signature.wire));
    const bool is_average = signature.reduce == coll::ReduceOp::average;
    const int ranks = operation.divisor != 0 ? operation.divisor : set.size();
    coll::Narrowing(signature.type, signature.wire)
        .widen(from + before * element_bytes, count, is_average ? ranks : 1, signature.postscale,
               operation.out);
}

}  // namespace

void build_task(std::span<Operation* const> operations,
                const coll::ProcessSet& set,
                coll::Task& task) {
    const auto& first = operations.front()->signature;
    task.op = first.op;
    task.reduce = first.reduce;
    task.type = first.type;
    task.wire = first.wire;
    task.device = {};
    if (const auto* const devices = operations.front()->devices) {
        task.device = {.kind = coll::Device::Kind::cuda,
                       .index = devices->at(static_cast<std::size_t>(set.place))};
    }
    task.prescale = first.prescale;
    task.postscale = first.postscale;
    task.root = first.op == coll::Op::broadcast ? place_of(first.root, set) : 0;
    task.divisor = operations.front()->divisor;
    task.ready.clear();
    task.segments.resize(first.op == coll::Op::barrier ? 0 : operations.size());
    for (std::size_t index = 0; index < task.segments.size(); ++index) {
        const Operation& operation = *operations[index];
        auto& segment = task.segments[index];
        segment.in = operation.in;
        segment.out = operation.out;
        segment.count = element_count(operation.signature.shape);
        set_counts(operation, set, segment);
        if (operation.on_device != nullptr && operation.on_device->ready != nullptr) {
            task.ready.push_back(operation.on_device->ready.get());
        }
    }
}

void pack(coll::Task& task, int place, std::span<std::byte> memory) {
    const auto type = wire_type(task.type, task.wire);
    std::byte* to = memory.data();
    coll::Segment whole{.in = to, .out = to};
    for (auto& segment : task.segments) {
        const auto bytes = segment.count * coll::size_of(type);
        if (task.wire != coll::Wire::own) {
            coll::Narrowing(task.type, task.wire)
                .narrow(segment.in, segment.count, task.prescale, to);
        } else if (bytes != 0 && (task.op != coll::Op::broadcast || task.root == place)) {
            std::memcpy(to, segment.in, bytes);
        }
        to += bytes;
        whole.count += segment.count;
    }
    if (task.op == coll::Op::reducescatter) {  // of one segment: nothing else travels with it
        whole.counts = std::move(task.segments.front().counts);
        whole.out += elements_before(whole.counts, place) * coll::size_of(type);
    }
    task.segments.clear();
    task.segments.push_back(std::move(whole));
    if (task.wire != coll::Wire::own) {  // the rest is done to the sum once it is wide again
        task.type = type;
        task.wire = coll::Wire::own;
        task.reduce = coll::ReduceOp::sum;
        task.prescale = task.postscale = 1;
    }
}

void unpack(std::span<const std::byte> memory,
            std::span<Operation* const> operations,
            const coll::ProcessSet& set) {
    const std::byte* from = memory.data();
    for (const Operation* operation : operations) {
        const auto& signature = operation->signature;
        const auto bytes = wire_byte_count(signature);
        if (signature.wire != coll::Wire::own) {
            unpack_narrow(from, *operation, set);
        } else if (bytes != 0) {
            std::memcpy(operation->out, from, bytes);
        }
        from += bytes;
    }
}

}  // namespace hvd::rt
