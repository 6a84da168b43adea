// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/engine/arithmetic.hpp"

#include "collectives/reduce/half.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace hvd::sim {
namespace {

using coll::Op;
using coll::ReduceOp;
using Bytes = std::vector<std::byte>;
using Tasks = std::span<const coll::Task* const>;

std::size_t element_bytes(const coll::Task& task) {
    return coll::size_of(task.type);
}

void append(Bytes& bytes, const std::byte* from, std::size_t count) {
    bytes.insert(bytes.end(), from, from + count);
}

std::size_t sum(std::span<const std::size_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

template <class T>
T combine(ReduceOp op, T left, T right) {
    switch (op) {
        case ReduceOp::min: return std::min(left, right);
        case ReduceOp::max: return std::max(left, right);
        case ReduceOp::product: return left * right;
        default: return left + right;
    }
}

template <class T>
Bytes reduce(Tasks tasks, std::size_t segment) {
    const auto& first = *tasks.front();
    const auto count = first.segments[segment].count;
    std::vector<T> values(count);
    for (std::size_t index = 0; index < count; ++index) {
        T value{};
        for (std::size_t place = 0; place < tasks.size(); ++place) {
            T one{};
            std::memcpy(&one, tasks[place]->segments[segment].in + index * sizeof(T), sizeof(T));
            value = place == 0 ? one : combine(first.reduce, value, one);
        }
        if (first.reduce == ReduceOp::average) {
            value /=
                static_cast<T>(first.divisor == 0 ? static_cast<int>(tasks.size()) : first.divisor);
        }
        values[index] = value;
    }
    Bytes bytes;
    append(bytes, reinterpret_cast<const std::byte*>(values.data()), count * sizeof(T));
    return bytes;
}

/// Values that were rounded on the way, which are only summed.
Bytes sum_halves(Tasks tasks, std::size_t segment) {
    std::vector<std::uint16_t> values(tasks.front()->segments[segment].count);
    for (std::size_t index = 0; index < values.size(); ++index) {
        float value = 0;
        for (const auto* task : tasks) {
            std::uint16_t one = 0;
            std::memcpy(&one, task->segments[segment].in + index * sizeof one, sizeof one);
            value += coll::f16_to_f32(one);
        }
        values[index] = coll::f32_to_f16(value);
    }
    Bytes bytes;
    append(bytes, reinterpret_cast<const std::byte*>(values.data()),
           values.size() * sizeof(std::uint16_t));
    return bytes;
}

Bytes reduce_any(Tasks tasks, std::size_t segment) {
    switch (tasks.front()->type) {
        case coll::DataType::f16: return sum_halves(tasks, segment);
        case coll::DataType::f64: return reduce<double>(tasks, segment);
        default: return reduce<std::int64_t>(tasks, segment);
    }
}

void append_segment(Tasks tasks, std::size_t place, std::size_t segment, Bytes& bytes) {
    const auto& own = tasks[place]->segments[segment];
    const auto element = element_bytes(*tasks[place]);
    switch (tasks[place]->op) {
        case Op::allreduce: {
            const auto reduced = reduce_any(tasks, segment);
            bytes.insert(bytes.end(), reduced.begin(), reduced.end());
            break;
        }
        case Op::reducescatter: {
            const auto reduced = reduce_any(tasks, segment);
            const auto before = sum(std::span(own.counts).first(place));
            append(bytes, reduced.data() + before * element, own.counts[place] * element);
            break;
        }
        case Op::broadcast: {
            const auto root = static_cast<std::size_t>(tasks[place]->root);
            append(bytes, tasks[root]->segments[segment].in, own.count * element);
            break;
        }
        case Op::allgather:
            for (const auto* task : tasks) {
                const auto& its = task->segments[segment];
                append(bytes, its.in, its.count * element);
            }
            break;
        case Op::alltoall:
            for (const auto* task : tasks) {
                const auto& its = task->segments[segment];
                const auto before = sum(std::span(its.send_counts).first(place));
                append(bytes, its.in + before * element, its.send_counts[place] * element);
            }
            break;
        case Op::barrier: break;
    }
}

std::size_t output_elements(const coll::Task& task, std::size_t segment, std::size_t place) {
    const auto& its = task.segments[segment];
    switch (task.op) {
        case Op::allgather:
        case Op::alltoall: return sum(its.counts);
        case Op::reducescatter: return its.counts[place];
        default: return its.count;
    }
}

}  // namespace

Bytes result_of(Tasks tasks, std::size_t place) {
    Bytes bytes;
    for (std::size_t segment = 0; segment < tasks[place]->segments.size(); ++segment) {
        append_segment(tasks, place, segment, bytes);
    }
    return bytes;
}

void write_result(const coll::Task& task, std::size_t place, std::span<const std::byte> result) {
    const std::byte* from = result.data();
    for (std::size_t segment = 0; segment < task.segments.size(); ++segment) {
        const auto bytes = output_elements(task, segment, place) * element_bytes(task);
        if (bytes != 0) {
            std::memcpy(task.segments[segment].out, from, bytes);
        }
        from += bytes;
    }
}

}  // namespace hvd::sim
