// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/local_result.hpp"

#include <cstring>

namespace hvd::coll {
namespace {

void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes != 0 && to != from) {
        std::memcpy(to, from, bytes);
    }
}

void move_on(std::span<const std::byte*> inputs, std::size_t bytes) noexcept {
    for (auto& input : inputs) {
        input += bytes;
    }
}

void gather(const Task& task, std::span<const std::byte*> inputs) noexcept {
    for (const auto& segment : task.segments) {
        auto* out = segment.out;
        for (std::size_t place = 0; place < inputs.size(); ++place) {
            const std::size_t bytes = segment.counts[place] * size_of(task.type);
            copy(out, inputs[place], bytes);
            inputs[place] += bytes;
            out += bytes;
        }
    }
}

void receive(const Task& task, int place, const std::byte* from) noexcept {
    for (const auto& segment : task.segments) {
        const std::size_t bytes = segment.count * size_of(task.type);
        copy(segment.out, task.root == place ? segment.in : from, bytes);
        from += bytes;
    }
}

}  // namespace

LocalResult::LocalResult(const Task& task, int members) {
    if (task.op == Op::allreduce || task.op == Op::reducescatter) {
        reducer_.emplace(task, members);
    }
}

void LocalResult::write(const Task& task, int place, std::span<const std::byte*> inputs) const {
    switch (task.op) {
        case Op::allreduce: reduce(task, inputs); break;
        case Op::allgather:
        case Op::alltoall: gather(task, inputs); break;
        case Op::broadcast:
            receive(task, place, inputs[static_cast<std::size_t>(task.root)]);
            break;
        case Op::reducescatter: reduce_own(task, static_cast<std::size_t>(place), inputs); break;
        case Op::barrier: break;
    }
}

void LocalResult::reduce(const Task& task, std::span<const std::byte*> inputs) const {
    for (const auto& segment : task.segments) {
        reducer_->run(inputs, {&segment.out, 1}, segment.count);
        move_on(inputs, segment.count * size_of(task.type));
    }
}

void LocalResult::reduce_own(const Task& task,
                             std::size_t place,
                             std::span<const std::byte*> inputs) const {
    for (const auto& segment : task.segments) {
        std::size_t before = 0;
        for (std::size_t other = 0; other < place; ++other) {
            before += segment.counts[other];
        }
        move_on(inputs, before * size_of(task.type));
        reducer_->run(inputs, {&segment.out, 1}, segment.counts[place]);
        move_on(inputs, (segment.count - before) * size_of(task.type));
    }
}

}  // namespace hvd::coll
