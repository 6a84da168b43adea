// SPDX-License-Identifier: Apache-2.0
//
// The stream forms of waiting, with tensors of the host, and the health of a world.
#include "runtime/include/hvd/hvd.hpp"
#include "tests/integration/engine/abi_worker.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

namespace hvd::test {
namespace {

hvd_request request_of(const char* name, const hvd_tensor& tensor) {
    hvd_request request{};
    request.struct_size = sizeof request;
    request.name = name;
    request.in = &tensor;
    request.out = &tensor;
    request.prescale = 1;
    request.postscale = 1;
    request.op = HVD_ALLREDUCE;
    request.reduce_op = HVD_SUM;
    return request;
}

/// A tensor of one value of the host, in each of its forms.
class Value {
public:
    Value() {
        tensor_.struct_size = sizeof tensor_;
        tensor_.data = &value_;
        tensor_.dtype = HVD_FLOAT32;
    }

    /// Its sum over the ranks, for which the caller waits.
    [[nodiscard]] hvd_request request(const char* name) {
        value_ = 1;
        return request_of(name, tensor_);
    }
    [[nodiscard]] bool is(int sum) const { return value_ == static_cast<float>(sum); }

private:
    float value_ = 0;
    hvd_tensor tensor_{};
};

void stream_waits() {
    auto world = hvd::init();
    auto* const context = world.context();
    Value value;
    Value other;
    std::array<hvd_ticket, 2> tickets{};

    const std::array requests{value.request("one"), other.request("two")};
    require(hvd_run_stream(context, requests.data(), 2, tickets.data(), nullptr, -1) == HVD_OK,
            "running");
    require(value.is(world.size()) && other.is(world.size()), "sums of hvd_run_stream");
    for (const auto ticket : tickets) {
        require(hvd_release(context, ticket) == HVD_OK, "releasing");
    }

    const std::array again{value.request("one"), other.request("two")};
    require(hvd_submit(context, again.data(), 2, tickets.data()) == HVD_OK, "submitting");
    require(hvd_wait_all_stream(context, tickets.data(), 2, nullptr, -1) == HVD_OK, "both");
    require(value.is(world.size()) && other.is(world.size()), "sums of hvd_wait_all_stream");
    require(hvd_wait_stream(context, tickets[0], nullptr, 0) == HVD_OK, "one that has ended");
    for (const auto ticket : tickets) {
        require(hvd_release(context, ticket) == HVD_OK, "releasing");
    }

    hvd_plan* plan = nullptr;
    const auto repeated = value.request("one");
    require(hvd_plan_create(context, &repeated, 1, &plan) == HVD_OK, "a plan");
    require(hvd_plan_start(context, plan) == HVD_OK, "starting");
    require(hvd_plan_wait_stream(context, plan, nullptr, -1) == HVD_OK, "its wait");
    require(value.is(world.size()), "sum of hvd_plan_wait_stream");
    require(hvd_plan_free(context, plan) == HVD_OK, "freeing");

    require(hvd_wait_stream(context, tickets[0], nullptr, 0) == HVD_INVALID_ARGUMENT, "stale");
    require(hvd_wait_all_stream(context, nullptr, 0, nullptr, 0) == HVD_INVALID_ARGUMENT, "none");
    require(hvd_plan_wait_stream(context, nullptr, nullptr, 0) == HVD_INVALID_ARGUMENT, "no plan");
    require(hvd_release_stream(context, 0, nullptr) == HVD_OK, "a stream's end");
    require(hvd_release_stream(context, -1, nullptr) == HVD_INVALID_ARGUMENT, "device -1");
    world.barrier("end");
}

/// The limit of a stream's wait passes while another rank is missing.
void stream_wait_limit() {
    auto world = hvd::init();
    Value value;
    hvd_ticket ticket = 0;
    const auto request = value.request("late");
    if (world.rank() == 0) {
        require(
            hvd_run_stream(world.context(), &request, 1, &ticket, nullptr, 20) == HVD_IN_PROGRESS,
            "the limit of hvd_run_stream");
        require(hvd_wait_stream(world.context(), ticket, nullptr, 20) == HVD_IN_PROGRESS,
                "the limit of hvd_wait_stream");
        require(hvd_wait_all_stream(world.context(), &ticket, 1, nullptr, 20) == HVD_IN_PROGRESS,
                "the limit of hvd_wait_all_stream");
        world.barrier("told");
    } else {
        world.barrier("told");
        require(hvd_submit(world.context(), &request, 1, &ticket) == HVD_OK, "late");
    }
    require(hvd_wait_stream(world.context(), ticket, nullptr, -1) == HVD_OK, "its end");
    require(hvd_release(world.context(), ticket) == HVD_OK, "releasing");
}

void health_after_death() {
    require(hvd_health(hvd_current()) == HVD_INVALID_ARGUMENT, "no context yet");
    auto world = hvd::init();
    require(hvd_health(world.context()) == HVD_OK, "healthy");
    world.barrier("all are here");
    if (world.rank() == world.size() - 1) {
        ::_exit(0);
    }
    Value value;
    hvd_ticket ticket = 0;
    const auto request = value.request("missed");
    const auto status = hvd_run_stream(world.context(), &request, 1, &ticket, nullptr, -1);
    require(status != HVD_OK, "a sum without a rank");
    require(hvd_health(world.context()) == status, "the same status");
    const std::string why = hvd_last_error();
    require(why.find("rank " + std::to_string(world.size() - 1)) != std::string::npos,
            "whose death it was");
    require(hvd_release(world.context(), ticket) == HVD_OK, "releasing");
    require(hvd_shutdown(world.context()) == HVD_OK, "leaving");
    require(hvd_health(world.context()) == HVD_UNAVAILABLE, "outside of a world");
}

}  // namespace

std::map<std::string, void (*)()> stream_cases() {
    return {{"stream_waits", stream_waits},
            {"stream_wait_limit", stream_wait_limit},
            {"health_after_death", health_after_death}};
}

}  // namespace hvd::test
