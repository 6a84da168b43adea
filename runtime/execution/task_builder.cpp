// SPDX-License-Identifier: Apache-2.0
#include "runtime/execution/task_builder.hpp"

#include <algorithm>
#include <cstring>
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

}  // namespace

void build_task(std::span<Operation* const> operations,
                const coll::ProcessSet& set,
                coll::Task& task) {
    const auto& first = operations.front()->signature;
    task.op = first.op;
    task.reduce = first.reduce;
    task.type = first.type;
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
    std::byte* to = memory.data();
    std::size_t count = 0;
    for (const auto& segment : task.segments) {
        const auto bytes = segment.count * coll::size_of(task.type);
        if (bytes != 0 && (task.op != coll::Op::broadcast || task.root == place)) {
            std::memcpy(to, segment.in, bytes);
        }
        to += bytes;
        count += segment.count;
    }
    task.segments.clear();
    task.segments.push_back({.in = memory.data(), .out = memory.data(), .count = count});
}

void unpack(std::span<const std::byte> memory, std::span<Operation* const> operations) {
    const std::byte* from = memory.data();
    for (const Operation* operation : operations) {
        const auto bytes = byte_count(operation->signature);
        if (bytes != 0) {
            std::memcpy(operation->out, from, bytes);
        }
        from += bytes;
    }
}

}  // namespace hvd::rt
