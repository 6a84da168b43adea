// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-bench/measure.hpp"

#include "apps/hvd-bench/data.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hvd::bench {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration span) {
    return std::chrono::duration<double, std::micro>(span).count();
}

int iterations_for(const Options& options, std::size_t bytes) {
    constexpr std::size_t kBudget = std::size_t{256} << 20;
    return options.iterations.value_or(
        static_cast<int>(std::clamp<std::size_t>(kBudget / (bytes + 16384), 5, 5000)));
}

/// The calls under test, in place and not, and their memory.
class Calls {
public:
    Calls(World& world, const Options& options, std::size_t bytes)
        : shape_{.collective = options.collective,
                 .reduce = options.reduce,
                 .type = options.type,
                 .rank = world.rank(),
                 .size = world.size(),
                 .root = options.root,
                 .count = options.collective == Collective::barrier
                              ? 0
                              : bytes / coll::size_of(options.type)},
          input_(shape_.count * coll::size_of(shape_.type)),
          output_(input_.size()) {
        const auto name = std::string(to_string(options.collective)) + "." + std::to_string(bytes);
        // The loop repeats the same call, so that its input must stay as it is; touch rewrites it.
        loop_ = create(world, name + ".loop", output_.data());
        touch_ = create(world, name + ".touch", input_.data());
    }
    Calls(const Calls&) = delete;
    Calls& operator=(const Calls&) = delete;
    ~Calls() {
        (void)hvd_plan_free(context_, loop_);
        (void)hvd_plan_free(context_, touch_);
    }

    void run(Mode mode) {
        const auto status = hvd_plan_run(context_, plan(mode), -1);
        if (status != HVD_OK) {
            throw Failure(status, hvd_last_error());
        }
    }

    void fill(std::uint64_t round) { fill_input(shape_, round, input_); }

    [[nodiscard]] std::size_t errors(Mode mode, std::uint64_t round) {
        if (shape_.collective == Collective::barrier) {
            return 0;
        }
        if (has_place()) {
            return count_errors(shape_, round, mode == Mode::loop ? output_ : input_);
        }
        hvd_tensor all{};
        all.struct_size = sizeof all;
        if (hvd_plan_result(context_, plan(mode), 0, &all) != HVD_OK) {
            throw Failure(HVD_INTERNAL, hvd_last_error());
        }
        const auto bytes = static_cast<std::size_t>(all.shape[0]) * coll::size_of(shape_.type);
        return count_errors(shape_, round, {static_cast<const std::byte*>(all.data), bytes});
    }

private:
    [[nodiscard]] hvd_plan* plan(Mode mode) const { return mode == Mode::loop ? loop_ : touch_; }

    /// Whether the result is as large as the input; otherwise the library has memory for it.
    [[nodiscard]] bool has_place() const {
        return shape_.collective == Collective::allreduce ||
               shape_.collective == Collective::broadcast;
    }

    [[nodiscard]] hvd_plan* create(World& world, const std::string& name, std::byte* out) {
        context_ = world.context();
        const auto extent = static_cast<std::int64_t>(shape_.count);
        hvd_tensor in{};
        in.struct_size = sizeof in;
        in.data = input_.data();
        in.shape = &extent;
        in.ndim = 1;
        in.dtype = static_cast<std::int32_t>(shape_.type);
        hvd_tensor to = in;
        to.data = out;
        hvd_request request{};
        request.struct_size = sizeof request;
        request.name = name.c_str();
        request.in = shape_.collective == Collective::barrier ? nullptr : &in;
        request.out = has_place() ? &to : nullptr;
        request.prescale = 1;
        request.postscale = 1;
        request.op = static_cast<std::int32_t>(shape_.collective);
        request.reduce_op = static_cast<std::int32_t>(shape_.reduce);
        request.root = shape_.root;
        hvd_plan* plan = nullptr;
        const auto status = hvd_plan_create(context_, &request, 1, &plan);
        if (status != HVD_OK) {
            throw Failure(status, hvd_last_error());
        }
        return plan;
    }

    Shape shape_;
    std::vector<std::byte> input_;
    std::vector<std::byte> output_;
    hvd_context* context_ = nullptr;
    hvd_plan* loop_ = nullptr;
    hvd_plan* touch_ = nullptr;
};

double sum_of_all(World& world, double value) {
    world.allreduce("bench.sum", std::span(&value, 1), {.op = ReduceOp::sum});
    return value;
}

/// The time of one call: the mean over the ranks of the mean over the calls.
double time_loop(World& world, Calls& calls, int iterations) {
    world.barrier("bench.meet");
    const auto start = Clock::now();
    for (int call = 0; call < iterations; ++call) {
        calls.run(Mode::loop);
    }
    const auto mine = microseconds(Clock::now() - start) / iterations;
    return sum_of_all(world, mine) / world.size();
}

/// The median over the calls of the time from the last rank's start to the last rank's end.
double time_touch(World& world, Calls& calls, int iterations) {
    auto meet = world.plan(Request::barrier("bench.meet.touch"));
    std::vector<double> starts;
    std::vector<double> ends;
    for (int call = 0; call < iterations; ++call) {
        calls.fill(static_cast<std::uint64_t>(call));
        meet.run();
        const auto start = Clock::now();
        calls.run(Mode::touch);
        const auto end = Clock::now();
        starts.push_back(microseconds(start.time_since_epoch()));
        ends.push_back(microseconds(end.time_since_epoch()));
    }
    // The ranks of one host share the steady clock.
    const Reduction latest{.op = ReduceOp::max};
    world.allreduce("bench.starts." + std::to_string(iterations), std::span(starts), latest);
    world.allreduce("bench.ends." + std::to_string(iterations), std::span(ends), latest);
    std::vector<double> spans;
    for (std::size_t call = 0; call < starts.size(); ++call) {
        spans.push_back(ends[call] - starts[call]);
    }
    std::ranges::nth_element(spans, spans.begin() + static_cast<std::ptrdiff_t>(spans.size() / 2));
    return spans[spans.size() / 2];
}

}  // namespace

Line measure(World& world, const Options& options, Mode mode, std::size_t bytes) {
    Calls calls(world, options, bytes);
    const int iterations = iterations_for(options, bytes);
    double wrong = 0;
    const auto check = [&](std::uint64_t round) {
        wrong += options.checks ? static_cast<double>(calls.errors(mode, round)) : 0;
    };
    for (int round = 0; round < options.warm_up; ++round) {
        calls.fill(static_cast<std::uint64_t>(round));
        calls.run(mode);
        check(static_cast<std::uint64_t>(round));
    }
    constexpr std::uint64_t kLoopRound = 5;
    calls.fill(kLoopRound);
    const double time = mode == Mode::loop ? time_loop(world, calls, iterations)
                                           : time_touch(world, calls, iterations);
    check(mode == Mode::loop ? kLoopRound : static_cast<std::uint64_t>(iterations - 1));
    return {.mode = mode,
            .bytes = bytes,
            .time_us = time,
            .errors = static_cast<std::size_t>(sum_of_all(world, wrong))};
}

}  // namespace hvd::bench
