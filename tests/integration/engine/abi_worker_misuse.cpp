// SPDX-License-Identifier: Apache-2.0
//
// The C ABI in the hands of programs that err: limits beyond every clock, callbacks that do what
// they must not, and no memory.
#include "tests/integration/engine/abi_worker.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

namespace hvd::test {
namespace {

constexpr std::chrono::milliseconds kLate{50};

hvd_context* join_world(std::int64_t timeout_ms = 0) {
    hvd_init_options options{};
    options.struct_size = sizeof options;
    options.timeout_ms = timeout_ms;
    hvd_context* context = nullptr;
    require(hvd_init(&options, &context) == HVD_OK, "hvd_init");
    return context;
}

hvd_request barrier(const char* name) {
    hvd_request request{};
    request.struct_size = sizeof request;
    request.name = name;
    request.op = HVD_BARRIER;
    return request;
}

hvd_ticket submit_barrier(hvd_context* context, const char* name) {
    const auto request = barrier(name);
    hvd_ticket ticket = 0;
    require(hvd_submit(context, &request, 1, &ticket) == HVD_OK, "hvd_submit");
    return ticket;
}

void end_barrier(hvd_context* context, hvd_ticket ticket) {
    require(hvd_wait(context, ticket, -1) == HVD_OK, "hvd_wait");
    require(hvd_release(context, ticket) == HVD_OK, "hvd_release");
}

/// A callback's observations, for the thread that checks them after its end.
struct Seen {
    explicit Seen(hvd_context* in) : context(in) {}

    hvd_context* context;
    std::function<void(Seen&, hvd_status)> act;
    hvd_status status = HVD_IN_PROGRESS;
    std::string wrong;
    std::atomic<int> calls{0};
};

/// Counts the call when it is over, by an exception too.
class Calling {
public:
    explicit Calling(Seen& seen) : seen_(seen) {}
    Calling(const Calling&) = delete;
    Calling& operator=(const Calling&) = delete;
    ~Calling() { ++seen_.calls; }

private:
    Seen& seen_;
};

extern "C" void on_end(void* argument, hvd_status status, const char* /*message*/) {
    auto& seen = *static_cast<Seen*>(argument);
    seen.status = status;
    const Calling calling(seen);
    seen.act(seen, status);
}

/// The callback `act` after a barrier, on the engine's thread if it comes in time and on this one.
void call_back(Seen& seen, const char* name) {
    const int before = seen.calls;
    const auto ticket = submit_barrier(seen.context, name);
    require(hvd_on_complete(seen.context, ticket, on_end, &seen) == HVD_OK, "hvd_on_complete");
    end_barrier(seen.context, ticket);
    require(seen.calls == before + 1, "the callback has been called before the end is seen");
    const auto ended = submit_barrier(seen.context, name);
    require(hvd_wait(seen.context, ended, -1) == HVD_OK, "hvd_wait");
    require(hvd_on_complete(seen.context, ended, on_end, &seen) == HVD_OK, "its callback");
    require(seen.calls == before + 2, "the callback of what has ended comes at once");
    require(hvd_release(seen.context, ended) == HVD_OK, "its release");
}

hvd_counters counters_of(hvd_context* context) {
    hvd_counters counters{};
    counters.struct_size = sizeof counters;
    require(hvd_counters_of(context, &counters) == HVD_OK, "hvd_counters_of");
    return counters;
}

/// A call that is forbidden in a callback is refused with a sentence.
void expect_refusal(Seen& seen, const char* what, hvd_status status) {
    const std::string words = hvd_last_error();
    if (status != HVD_INVALID_ARGUMENT || words.find("callback") == std::string::npos) {
        seen.wrong += std::string(what) + ": " + std::to_string(status) + " " + words + "; ";
    }
}

int32_t rank_in(hvd_context* context) {
    hvd_topology topology{};
    topology.struct_size = sizeof topology;
    require(hvd_topology_of(context, &topology) == HVD_OK, "hvd_topology_of");
    return topology.rank;
}

/// The other rank comes late, and waits too.
void limits() {
    constexpr auto kForever = std::numeric_limits<std::int64_t>::max();
    for (const auto limit : {kForever, kForever / 1000, kForever / 1'000'000, kForever / 4 * 3}) {
        auto* const context = join_world(limit);
        const bool is_late = rank_in(context) == 1;
        if (is_late) {
            std::this_thread::sleep_for(kLate);
        }
        const auto ticket = submit_barrier(context, "late");
        const auto status = hvd_wait(context, ticket, limit);
        require(status == HVD_OK, "hvd_wait gave " + std::to_string(status));
        require(hvd_shutdown(context) == HVD_OK, "hvd_shutdown");
        if (is_late) {
            std::this_thread::sleep_for(kLate);
        }
    }
}

void waits_in_callback() {
    Seen seen(join_world());
    seen.act = [](Seen& self, hvd_status) {
        const auto before = counters_of(self.context);
        const auto request = barrier("inside");
        hvd_ticket ticket = 17;
        expect_refusal(self, "hvd_run", hvd_run(self.context, &request, 1, &ticket, -1));
        hvd_plan* plan = nullptr;
        require(hvd_plan_create(self.context, &request, 1, &plan) == HVD_OK, "a plan");
        expect_refusal(self, "hvd_plan_run", hvd_plan_run(self.context, plan, -1));
        require(hvd_plan_free(self.context, plan) == HVD_OK, "freeing it");
        const auto after = counters_of(self.context);
        if (ticket != 0 || after.submitted != before.submitted) {
            self.wrong += "something was submitted; ";
        }
        const auto pending = submit_barrier(self.context, "later");
        const std::size_t nowhere = 77;
        std::size_t index = nowhere;
        const auto waited = hvd_wait_any(self.context, &pending, 1, -1, &index);
        expect_refusal(self, "hvd_wait_any", waited);
        require(hvd_release(self.context, pending) == HVD_OK, "releasing it");
    };
    call_back(seen, "outside");
    require(seen.wrong.empty(), seen.wrong);
    require(hvd_shutdown(seen.context) == HVD_OK, "hvd_shutdown");
}

void callback_in_shutdown() {
    Seen seen(join_world());
    const bool is_first = rank_in(seen.context) == 0;
    end_barrier(seen.context, submit_barrier(seen.context, "both are here"));
    seen.act = [](Seen& self, hvd_status) {
        expect_refusal(self, "hvd_shutdown", hvd_shutdown(self.context));
        hvd_context* other = nullptr;
        expect_refusal(self, "hvd_init", hvd_init(nullptr, &other));
    };
    const auto alone = submit_barrier(seen.context, is_first ? "of rank 0" : "of rank 1");
    if (!is_first) {  // which leaves second: else rank 0's callback could come before its shutdown
        require(hvd_wait(seen.context, alone, -1) == HVD_ABORTED, "rank 0 has left");
        require(hvd_shutdown(seen.context) == HVD_OK, "hvd_shutdown");
        return;
    }
    require(hvd_on_complete(seen.context, alone, on_end, &seen) == HVD_OK, "hvd_on_complete");
    require(hvd_shutdown(seen.context) == HVD_OK, "hvd_shutdown");
    require(seen.calls == 1 && seen.status == HVD_ABORTED, "the callback");
    require(seen.wrong.empty(), seen.wrong);
}

void init_in_callback() {
    Seen seen(join_world());
    seen.act = [](Seen& self, hvd_status) {
        hvd_context* same = nullptr;
        if (hvd_init(nullptr, &same) != HVD_OK || same != self.context) {
            self.wrong += "another context; ";
        }
        expect_refusal(self, "hvd_shutdown", hvd_shutdown(self.context));
    };
    call_back(seen, "x");
    require(seen.wrong.empty(), seen.wrong);
}

/// The status of a barrier whose callback throws, and its words; `is_late`: it has ended before.
hvd_status status_after_throw(Seen& seen, bool is_late, std::string& words) {
    const int before = seen.calls;
    const auto ticket = submit_barrier(seen.context, is_late ? "late" : "in time");
    if (is_late) {
        require(hvd_wait(seen.context, ticket, -1) == HVD_OK, "hvd_wait");
    }
    auto status = hvd_on_complete(seen.context, ticket, on_end, &seen);
    words = hvd_last_error();
    const auto waited = hvd_wait(seen.context, ticket, -1);
    require(seen.calls == before + 1, "the callback has been called");
    if (status == HVD_OK) {
        status = waited;
        words = hvd_last_error();
        require(hvd_poll(seen.context, ticket) == waited, "hvd_poll says the same");
    } else {
        require(waited == HVD_OK, "the status of what had ended stands");
    }
    require(hvd_release(seen.context, ticket) == HVD_OK, "hvd_release");
    return status;
}

void throwing_callback() {
    Seen seen(join_world());
    std::string words;
    const auto expect_failure = [&](bool is_late, std::string_view reason) {
        require(status_after_throw(seen, is_late, words) == HVD_INTERNAL, "the status: " + words);
        require(words.find(reason) != std::string::npos, words);
    };
    seen.act = [](Seen& self, hvd_status status) {
        self.wrong += status == HVD_OK ? "" : "the operation failed; ";
        throw std::runtime_error("thrown by a callback");
    };
    for (int round = 0; round < 3; ++round) {
        expect_failure(false, "thrown by a callback");
        expect_failure(true, "thrown by a callback");
    }
    require(seen.wrong.empty(), seen.wrong);
    seen.act = [](Seen&, hvd_status) { throw 7; };
    expect_failure(false, "no std::exception");
    seen.act = [](Seen&, hvd_status) {};
    call_back(seen, "afterwards");
    require(hvd_shutdown(seen.context) == HVD_OK, "hvd_shutdown");
}

/// Leaves no more than crumbs to malloc; 64 KiB of them could be anywhere.
void take_all_memory(std::vector<void*>& taken) {
    const rlimit none{.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    require(::setrlimit(RLIMIT_AS, &none) == 0, "setrlimit");
    for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{1} << 12}) {
        // NOLINTBEGIN(cppcoreguidelines-no-malloc): as the libraries do
        for (void* block = std::malloc(bytes); block != nullptr; block = std::malloc(bytes)) {
            taken.push_back(block);
        }
        // NOLINTEND(cppcoreguidelines-no-malloc)
    }
}

void no_memory() {
    (void)hvd_last_error();  // what belongs to the thread is there
    std::vector<void*> taken;
    taken.reserve(100'000);
    take_all_memory(taken);
    hvd_context* context = nullptr;
    auto* const current = hvd_current();
    const auto features =
        hvd_feature_value(HVD_FEATURE_MPI) + hvd_feature_value(HVD_FEATURE_MPI_USED);
    const auto joined = hvd_init(nullptr, &context);
    const auto left = hvd_shutdown(nullptr);
    const auto polled = hvd_poll(nullptr, 1);
    const rlimit all{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    require(::setrlimit(RLIMIT_AS, &all) == 0, "setrlimit");
    require(current == nullptr && features == 0, "values");
    require(joined != HVD_OK && left != HVD_OK && polled != HVD_OK, "statuses");
    require(hvd_init(nullptr, &context) == HVD_OK, "with memory");
}

void too_much_memory() {
    auto* const context = join_world();
    constexpr auto kMost = std::numeric_limits<std::size_t>::max();
    for (const std::size_t bytes : {kMost, kMost - 64, kMost / 2 + 1, kMost / 2 - 63}) {
        void* memory = context;
        const auto status = hvd_alloc(context, bytes, &memory);
        require(status != HVD_OK && memory == nullptr, "got " + std::to_string(bytes));
    }
}

}  // namespace

std::map<std::string, void (*)()> misuse_cases() {
    return {{"limits", limits},
            {"waits_in_callback", waits_in_callback},
            {"callback_in_shutdown", callback_in_shutdown},
            {"init_in_callback", init_in_callback},
            {"throwing_callback", throwing_callback},
            {"no_memory", no_memory},
            {"too_much_memory", too_much_memory}};
}

}  // namespace hvd::test
