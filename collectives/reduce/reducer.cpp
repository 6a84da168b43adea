// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/reducer.hpp"

#include "collectives/base/error.hpp"

#include <string>

namespace hvd::coll {
namespace {

[[nodiscard]] bool is_integer(DataType type) noexcept {
    return type < DataType::f16 && type != DataType::boolean;
}

}  // namespace

Reducer::Reducer(const Task& task, int ranks) : element_bytes_(size_of(task.type)) {
    const int divisor = task.divisor != 0 ? task.divisor : ranks;
    static const kernels::VectorKernels vector_kernels = kernels::best_vector_kernels();
    const bool has_factor = task.prescale != 1 || task.postscale != 1;
    const bool is_scaled =
        has_factor || (task.reduce == ReduceOp::average && is_integer(task.type) && divisor > 1);
    args_.prescale = task.prescale;
    args_.postscale = task.postscale;
    args_.divisor = task.reduce == ReduceOp::average ? divisor : 1;
    generic_ = kernels::generic_kernel(task.type, task.reduce, is_scaled);
    if (generic_ == nullptr) {
        throw Exception(Error{Errc::unsupported, std::string(to_string(task.reduce)) + " of " +
                                                     std::string(to_string(task.type)) +
                                                     " has no meaning"});
    }
    vector_ = is_scaled && is_integer(task.type) ? nullptr : vector_kernels(task.type, task.reduce);
}

void Reducer::run(std::span<const std::byte* const> inputs,
                  std::span<std::byte* const> outputs,
                  std::size_t count,
                  int taken) const {
    auto args = args_;
    args.inputs = inputs.data();
    args.input_count = static_cast<int>(inputs.size());
    args.outputs = outputs.data();
    args.output_count = static_cast<int>(outputs.size());
    args.taken_count = taken;
    args.count = count;
    args.first = vector_ != nullptr ? vector_(args) : 0;
    if (args.first < count) {
        generic_(args);
    }
}

}  // namespace hvd::coll
