// SPDX-License-Identifier: Apache-2.0
//
// Programs that use the C ABI in a world of one: the input is a list of calls. Structs have any
// size and values, but the memory behind them is what a caller of that size has, and no byte more;
// tickets and enumerators are right or any number; callbacks submit, release, wait and throw.
#include "runtime/include/hvd/hvd.h"
#include "tests/fuzz/c_abi_input.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using hvd::fuzz::Input;
using hvd::fuzz::Structs;

namespace {

constexpr std::array<std::int64_t, 6> kLimits{0,  1,  5,
                                              50, -1, std::numeric_limits<std::int64_t>::max()};

/// A failure has a sentence, and a status is one of hvd_status.
hvd_status checked(hvd_status status) {
    const std::string words = hvd_last_error();
    const bool has_failed = status != HVD_OK && status != HVD_IN_PROGRESS;
    if (status < HVD_OK || status > HVD_IN_PROGRESS || (has_failed && words.empty())) {
        std::abort();
    }
    return status;
}

std::atomic<std::size_t> callbacks_called{0};

/// The action of a callback, on the engine's thread or on the caller's.
struct CallbackPlan {
    hvd_context* context;
    hvd_ticket ticket;
    std::uint8_t what;
};

extern "C" void on_end(void* argument, hvd_status status, const char* message) {
    const auto plan = *static_cast<const CallbackPlan*>(argument);
    ++callbacks_called;  // from here on the argument may go
    (void)checked(status);
    if (message == nullptr) {
        std::abort();
    }
    hvd_context* same = nullptr;
    if ((plan.what & 1U) != 0) {
        (void)hvd_release(plan.context, plan.ticket);
    }
    if ((plan.what & 2U) != 0 && checked(hvd_shutdown(plan.context)) == HVD_OK) {
        std::abort();
    }
    if ((plan.what & 4U) != 0) {
        (void)checked(hvd_init(nullptr, &same));
    }
    hvd_ticket ticket = 0;
    if ((plan.what & 8U) != 0 &&
        (checked(hvd_run(plan.context, nullptr, 0, &ticket, -1)) == HVD_OK || ticket != 0)) {
        std::abort();
    }
    if ((plan.what & 16U) != 0) {
        throw std::runtime_error("thrown by a callback");
    }
}

/// One program: what it holds, and the calls it makes.
class Program {
public:
    explicit Program(std::span<const std::uint8_t> bytes) : input_(bytes), structs_(input_) {}
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    ~Program() { settle(); }

    void run() {
        (void)checked(hvd_init(nullptr, &context_));
        for (int calls = 0; calls < 64 && !input_.is_empty(); ++calls) {
            step();
        }
    }

private:
    void step();
    void submit(bool wait);
    void use_ticket();
    void use_plan();
    void use_world();
    void use_sets();
    void ask();
    void settle();

    hvd_context* any_context() {
        return input_.one_in(16) ? reinterpret_cast<hvd_context*>(input_.number<std::uintptr_t>())
                                 : context_;
    }
    hvd_ticket any_ticket() {
        return tickets_.empty() || input_.one_in(8) ? input_.number<hvd_ticket>()
                                                    : tickets_[input_.below(tickets_.size())];
    }
    hvd_plan* any_plan() { return plans_.empty() ? nullptr : plans_[input_.below(plans_.size())]; }
    std::int64_t any_limit() { return input_.pick(kLimits); }

    Input input_;
    Structs structs_;
    hvd_context* context_ = nullptr;
    std::vector<hvd_ticket> tickets_;
    std::vector<hvd_plan*> plans_;
    std::vector<std::unique_ptr<CallbackPlan>> callbacks_;
    std::size_t callbacks_due_ = callbacks_called;
};

void Program::step() {
    switch (input_.below(10)) {
        case 0:
        case 1:
        case 2: submit(false); break;
        case 3: submit(true); break;
        case 4:
        case 5: use_ticket(); break;
        case 6: use_plan(); break;
        case 7: use_world(); break;
        case 8: use_sets(); break;
        default: ask();
    }
}

void Program::submit(bool wait) {
    const auto requests = structs_.requests();
    std::vector<hvd_ticket> tickets(std::min<std::size_t>(requests.count, 8), 0);
    auto* const place = input_.one_in(32) ? nullptr : tickets.data();
    auto* const context = any_context();
    const auto status = wait ? hvd_run(context, requests.first, requests.count, place, any_limit())
                             : hvd_submit(context, requests.first, requests.count, place);
    (void)checked(status);
    for (const auto ticket : tickets) {
        if (ticket != 0) {
            tickets_.push_back(ticket);
        }
    }
}

void Program::use_ticket() {
    const auto ticket = any_ticket();
    auto* const context = any_context();
    std::size_t index = 0;
    const std::int64_t* splits = nullptr;
    switch (input_.below(7)) {
        case 0: (void)checked(hvd_poll(context, ticket)); break;
        case 1: (void)checked(hvd_wait(context, ticket, any_limit())); break;
        case 2: {
            const std::array both{ticket, any_ticket()};
            (void)checked(hvd_wait_any(context, both.data(), input_.below(3), any_limit(), &index));
            break;
        }
        case 3:
            callbacks_.push_back(std::make_unique<CallbackPlan>(
                CallbackPlan{context, ticket, input_.number<std::uint8_t>()}));
            if (checked(hvd_on_complete(context, ticket, input_.one_in(16) ? nullptr : on_end,
                                        callbacks_.back().get())) == HVD_OK) {
                ++callbacks_due_;
            }
            break;
        case 4: (void)checked(hvd_result(context, ticket, structs_.empty<hvd_tensor>())); break;
        case 5: (void)checked(hvd_received_splits(context, ticket, &splits, &index)); break;
        default: (void)checked(hvd_release(context, ticket));
    }
}

void Program::use_plan() {
    auto* const context = any_context();
    auto* const plan = any_plan();
    switch (input_.below(6)) {
        case 0: {
            const auto requests = structs_.requests();
            hvd_plan* made = nullptr;
            if (checked(hvd_plan_create(context, requests.first, requests.count, &made)) ==
                HVD_OK) {
                plans_.push_back(made);
            }
            break;
        }
        case 1: (void)checked(hvd_plan_start(context, plan)); break;
        case 2: (void)checked(hvd_plan_wait(context, plan, any_limit())); break;
        case 3: (void)checked(hvd_plan_run(context, plan, any_limit())); break;
        case 4:
            (void)checked(
                hvd_plan_result(context, plan, input_.below(4), structs_.empty<hvd_tensor>()));
            break;
        default:
            if (checked(hvd_plan_free(context, plan)) == HVD_OK) {
                std::erase(plans_, plan);
            }
    }
}

void Program::use_world() {
    switch (input_.below(6)) {
        case 0: (void)checked(hvd_shutdown(any_context())); break;
        case 1: (void)checked(hvd_init(structs_.options(), &context_)); break;
        case 2:
            (void)checked(hvd_topology_of(any_context(), structs_.empty<hvd_topology>()));
            break;
        case 3:
            (void)checked(hvd_counters_of(any_context(), structs_.empty<hvd_counters>()));
            break;
        case 4: (void)checked(hvd_init(nullptr, nullptr)); break;
        default: (void)checked(hvd_init(nullptr, &context_));
    }
    if (context_ == nullptr) {
        (void)checked(hvd_init(nullptr, &context_));
    }
}

void Program::use_sets() {
    auto* const context = any_context();
    const auto id = input_.number<std::int32_t>() % 3;
    std::array<std::int32_t, 2> numbers{};
    std::size_t count = 0;
    switch (input_.below(4)) {
        case 0: {
            std::int32_t made = 0;
            (void)checked(hvd_process_set_add(context, structs_.set(), any_limit(), &made));
            break;
        }
        case 1: (void)checked(hvd_process_set_remove(context, id, any_limit())); break;
        case 2:
            (void)checked(hvd_process_set_ids(context, numbers.data(), input_.below(3), &count));
            break;
        default:
            (void)checked(
                hvd_process_set_ranks(context, id, numbers.data(), input_.below(3), &count));
    }
}

void Program::ask() {
    switch (input_.below(5)) {
        case 0: (void)hvd_enum_value(input_.text().c_str()); break;
        case 1: {
            const auto feature = input_.number<std::int32_t>() % 16;
            (void)hvd_feature_value(feature == HVD_FEATURE_NCCL ? -1 : feature);
            break;
        }
        case 2: {
            void* memory = nullptr;
            const auto bytes = input_.one_in(2) ? input_.number<std::size_t>() | (1ULL << 63U)
                                                : input_.below(4096);
            if (checked(hvd_alloc(any_context(), bytes, &memory)) == HVD_OK && bytes != 0) {
                std::fill_n(static_cast<std::byte*>(memory), bytes, std::byte{1});
            }
            if (checked(hvd_free(any_context(), memory)) != HVD_OK) {
                (void)hvd_free(context_, memory);
            }
            break;
        }
        case 3:
            (void)checked(hvd_report(input_.number<std::int32_t>() % 5, 0, input_.text().c_str()));
            break;
        default: (void)checked(hvd_timeline_stop(any_context()));
    }
}

/// Yields. Aborts after `limit`: the fuzzer then reports a hang.
void wait_until(std::chrono::steady_clock::time_point limit) {
    if (std::chrono::steady_clock::now() > limit) {
        std::abort();
    }
    std::this_thread::yield();
}

/// Nothing may touch this program's memory when it is gone.
void Program::settle() {
    for (auto* const plan : plans_) {
        (void)hvd_plan_wait(context_, plan, -1);
        if (hvd_plan_free(context_, plan) != HVD_OK) {
            std::abort();
        }
    }
    for (const auto ticket : tickets_) {
        (void)hvd_wait(context_, ticket, -1);
        (void)hvd_release(context_, ticket);
    }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(4);
    hvd_counters counters{};
    counters.struct_size = sizeof counters;
    while (hvd_counters_of(context_, &counters) == HVD_OK &&
           counters.submitted != counters.completed) {
        wait_until(limit);
    }
    while (callbacks_called != callbacks_due_) {
        wait_until(limit);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Program(std::span(data, size)).run();
    return 0;
}
