// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/two_stage_reducer.hpp"

#include <algorithm>
#include <array>

namespace hvd::coll {
namespace {

Task first_stage(const Task& task) {
    Task first{.op = task.op, .reduce = task.reduce, .type = task.type};
    first.prescale = task.prescale;
    if (task.reduce == ReduceOp::average) {
        first.reduce = ReduceOp::sum;
    }
    return first;
}

Task second_stage(const Task& task, int ranks) {
    Task second{.op = task.op, .reduce = task.reduce, .type = task.type};
    second.postscale = task.postscale;
    second.divisor = task.divisor != 0 ? task.divisor : ranks;
    return second;
}

std::span<float> floats_at(std::byte* memory, std::size_t count) {
    return {reinterpret_cast<float*>(memory), count};
}

}  // namespace

bool TwoStageReducer::can(const Task& task) noexcept {
    if (task.op != Op::allreduce || is_adasum(task.reduce)) {
        return false;
    }
    return task.type == DataType::f32 || task.type == DataType::f64 || HalfSums::can(task) ||
           (task.reduce != ReduceOp::average && task.prescale == 1 && task.postscale == 1);
}

TwoStageReducer::TwoStageReducer(const Task& task, int first, int ranks)
    : element_bytes_(size_of(task.type)),
      partial_bytes_(HalfSums::can(task) ? sizeof(float) : element_bytes_),
      combine_(float_combiner(task.reduce)),
      first_(first_stage(task), first),
      second_(second_stage(task, ranks), ranks / first) {
    if (HalfSums::can(task)) {
        halves_.emplace(task, ranks);
    }
}

void TwoStageReducer::add_up(std::span<const std::byte* const> inputs,
                             std::byte* partial,
                             std::size_t count) const {
    if (!halves_) {
        first_.run(inputs, {&partial, 1}, count);
        return;
    }
    std::array<float, 1024> widened{};
    for (std::size_t done = 0; done < count; done += widened.size()) {
        const auto sums =
            floats_at(partial, count).subspan(done).first(std::min(widened.size(), count - done));
        const auto offset = done * element_bytes_;
        halves_->widen(inputs.front() + offset, sums);
        for (const auto* input : inputs.subspan(1)) {
            halves_->widen(input + offset, std::span(widened).first(sums.size()));
            combine_(widened.data(), sums.data(), static_cast<int>(sums.size()));
        }
    }
}

void TwoStageReducer::finish(std::span<std::byte* const> partials,
                             std::byte* out,
                             std::size_t count) const {
    if (!halves_) {
        second_.run({partials.data(), partials.size()}, {&out, 1}, count);
        return;
    }
    const auto sums = floats_at(partials.front(), count);
    for (auto* partial : partials.subspan(1)) {
        combine_(floats_at(partial, count).data(), sums.data(), static_cast<int>(count));
    }
    halves_->finish(sums, out);
}

}  // namespace hvd::coll
