// SPDX-License-Identifier: Apache-2.0
//
// libhorovod for C++20, header-only over the C ABI of hvd.h.
//
//   auto world = hvd::init();
//   std::vector<float> gradients = ...;
//   world.allreduce("gradients", std::span(gradients));          // the average, in place
//   auto all = world.allgather("sizes", std::span(my_sizes));    // of all ranks, in rank order
//
// Calls that fail throw hvd::Failure. Everything is thread-safe unless it says otherwise.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hvd/hvd.h"
#include "hvd/request.hpp"

namespace hvd {

/// Why a call failed: what a caller can do about it, and a sentence that says why.
class Failure : public std::exception {
public:
    Failure(hvd_status status, std::string message)
        : status_(status), message_(std::move(message)) {}

    [[nodiscard]] hvd_status status() const noexcept { return status_; }
    [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

private:
    hvd_status status_;
    std::string message_;
};

namespace detail {

inline void check(hvd_status status) {
    if (status != HVD_OK) {
        throw Failure(status, hvd_last_error());
    }
}

/// HVD_IN_PROGRESS is false: the limit passed first.
[[nodiscard]] inline bool check_wait(hvd_status status) {
    if (status == HVD_IN_PROGRESS) {
        return false;
    }
    check(status);
    return true;
}

[[nodiscard]] inline std::int64_t limit_ms(std::optional<std::chrono::milliseconds> limit) {
    return limit ? limit->count() : -1;
}

}  // namespace detail

/// One submitted operation. Its memory belongs to the runtime until it has ended; the destructor
/// does not wait.
class Pending {
public:
    Pending(hvd_context* context, hvd_ticket ticket) noexcept
        : context_(context), ticket_(ticket) {}
    Pending(Pending&& other) noexcept
        : context_(other.context_), ticket_(std::exchange(other.ticket_, 0)) {}
    Pending& operator=(Pending&& other) noexcept {
        std::swap(context_, other.context_);
        std::swap(ticket_, other.ticket_);
        return *this;
    }
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    ~Pending() {
        if (ticket_ != 0) {
            (void)hvd_release(context_, ticket_);
        }
    }

    /// Whether it has ended. Throws how it failed.
    [[nodiscard]] bool poll() const { return detail::check_wait(hvd_poll(context_, ticket_)); }

    /// Waits for the end; false if `limit` passes first. Throws how it failed.
    bool wait(std::optional<std::chrono::milliseconds> limit = {}) const {
        return detail::check_wait(hvd_wait(context_, ticket_, detail::limit_ms(limit)));
    }

    /// The output of an operation that has ended, valid as long as this object.
    template <Element T>
    [[nodiscard]] std::span<T> result() const {
        hvd_tensor tensor{};
        tensor.struct_size = sizeof tensor;
        detail::check(hvd_result(context_, ticket_, &tensor));
        if (tensor.dtype != dtype_of<T>()) {
            throw Failure(HVD_INVALID_ARGUMENT, "the result has another type");
        }
        std::size_t count = 1;
        for (const auto extent : std::span(tensor.shape, static_cast<std::size_t>(tensor.ndim))) {
            count *= static_cast<std::size_t>(extent);
        }
        return {static_cast<T*>(tensor.data), count};
    }

    /// How many elements each rank of the set has sent here, of an alltoall that has ended; valid
    /// as long as this object.
    [[nodiscard]] std::span<const std::int64_t> received_splits() const {
        const std::int64_t* splits = nullptr;
        std::size_t count = 0;
        detail::check(hvd_received_splits(context_, ticket_, &splits, &count));
        return {splits, count};
    }

private:
    hvd_context* context_;
    hvd_ticket ticket_;
};

/// The same operations over the same memory, again and again, with names and sizes read once. The
/// fastest way. Thread: one at a time. It must not outlive the process's worlds while it runs.
class Plan {
public:
    Plan(hvd_context* context, std::span<const Request> requests) : context_(context) {
        Request::with_raw(requests, [&](std::span<const hvd_request> raw) {
            detail::check(hvd_plan_create(context_, raw.data(), raw.size(), &plan_));
        });
    }
    Plan(Plan&& other) noexcept
        : context_(other.context_), plan_(std::exchange(other.plan_, nullptr)) {}
    Plan& operator=(Plan&& other) noexcept {
        std::swap(context_, other.context_);
        std::swap(plan_, other.plan_);
        return *this;
    }
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    ~Plan() { (void)hvd_plan_free(context_, plan_); }

    /// Starts all and waits for all.
    void run() { (void)detail::check_wait(hvd_plan_run(context_, plan_, -1)); }

    /// Starts all; `wait` comes before the next start.
    void start() { detail::check(hvd_plan_start(context_, plan_)); }
    bool wait(std::optional<std::chrono::milliseconds> limit = {}) {
        return detail::check_wait(hvd_plan_wait(context_, plan_, detail::limit_ms(limit)));
    }

private:
    hvd_context* context_;
    hvd_plan* plan_ = nullptr;
};

/// How a process joins the world; the same on every rank, but for the limit.
struct InitOptions {
    std::optional<std::chrono::milliseconds> limit;
    std::vector<std::vector<std::int32_t>> process_sets;  // by their ranks: ids 1, 2, ...
    bool dynamic_process_sets = false;                    // more may be added and removed later
};

/// This process's membership in the world. It leaves when the object ends.
class World {
public:
    explicit World(const InitOptions& wanted = {}) {
        std::vector<hvd_process_set> sets;
        sets.reserve(wanted.process_sets.size());
        for (const auto& ranks : wanted.process_sets) {
            sets.push_back(raw_set(ranks));
        }
        hvd_init_options options{};
        options.struct_size = sizeof options;
        options.timeout_ms = wanted.limit ? wanted.limit->count() : 0;
        options.process_sets = sets.data();
        options.process_set_count = sets.size();
        options.dynamic_process_sets = wanted.dynamic_process_sets ? 1 : 0;
        detail::check(hvd_init(&options, &context_));
        topology_.struct_size = sizeof topology_;
        detail::check(hvd_topology_of(context_, &topology_));
    }
    World(World&& other) noexcept
        : context_(std::exchange(other.context_, nullptr)), topology_(other.topology_) {}
    World& operator=(World&&) = delete;
    World(const World&) = delete;
    World& operator=(const World&) = delete;
    ~World() {
        if (context_ != nullptr) {
            (void)hvd_shutdown(context_);
        }
    }

    [[nodiscard]] int rank() const noexcept { return topology_.rank; }
    [[nodiscard]] int size() const noexcept { return topology_.size; }
    [[nodiscard]] int local_rank() const noexcept { return topology_.local_rank; }
    [[nodiscard]] int local_size() const noexcept { return topology_.local_size; }
    [[nodiscard]] int cross_rank() const noexcept { return topology_.cross_rank; }
    [[nodiscard]] int cross_size() const noexcept { return topology_.cross_size; }

    /// Queues the operations and returns at once.
    [[nodiscard]] std::vector<Pending> submit(std::span<const Request> requests) {
        std::vector<hvd_ticket> tickets(requests.size());
        Request::with_raw(requests, [&](std::span<const hvd_request> raw) {
            detail::check(hvd_submit(context_, raw.data(), raw.size(), tickets.data()));
        });
        return own(tickets);
    }
    [[nodiscard]] Pending submit(const Request& request) {
        return std::move(submit(std::span(&request, 1)).front());
    }

    /// Queues the operations and waits for all of them.
    std::vector<Pending> run(std::span<const Request> requests) {
        std::vector<hvd_ticket> tickets(requests.size());
        return Request::with_raw(requests, [&](std::span<const hvd_request> raw) {
            const auto status = hvd_run(context_, raw.data(), raw.size(), tickets.data(), -1);
            const std::string message = status == HVD_OK ? "" : hvd_last_error();
            auto pending = tickets.front() == 0 ? std::vector<Pending>() : own(tickets);
            if (status != HVD_OK) {
                throw Failure(status, message);
            }
            return pending;
        });
    }
    Pending run(const Request& request) { return std::move(run(std::span(&request, 1)).front()); }

    [[nodiscard]] Plan plan(std::span<const Request> requests) { return {context_, requests}; }
    [[nodiscard]] Plan plan(const Request& request) { return {context_, std::span(&request, 1)}; }

    template <Element T>
    void allreduce(std::string name,
                   std::span<T> data,
                   Reduction reduction = {},
                   ProcessSet set = {}) {
        run(Request::allreduce(std::move(name), data, reduction).in(set));
    }
    template <Element T>
    void broadcast(std::string name, std::span<T> data, int root, ProcessSet set = {}) {
        run(Request::broadcast(std::move(name), data, root).in(set));
    }
    template <Element T>
    [[nodiscard]] std::vector<std::remove_const_t<T>> allgather(std::string name,
                                                                std::span<T> data,
                                                                ProcessSet set = {}) {
        return result_of<T>(Request::allgather(std::move(name), data).in(set));
    }
    template <Element T>
    [[nodiscard]] std::vector<std::remove_const_t<T>> alltoall(
        std::string name,
        std::span<T> data,
        std::span<const std::int64_t> splits = {},
        ProcessSet set = {}) {
        return result_of<T>(Request::alltoall(std::move(name), data, splits).in(set));
    }
    template <Element T>
    [[nodiscard]] std::vector<std::remove_const_t<T>> reducescatter(std::string name,
                                                                    std::span<T> data,
                                                                    Reduction reduction = {},
                                                                    ProcessSet set = {}) {
        return result_of<T>(Request::reducescatter(std::move(name), data, reduction).in(set));
    }
    void barrier(std::string name = "barrier", ProcessSet set = {}) {
        run(Request::barrier(std::move(name)).in(set));
    }

    /// Waits until all ranks have joined, and takes part in their reductions meanwhile. Returns the
    /// rank that joined last.
    int join(std::string name = "join") {
        return result_of<std::int32_t>(Request::join(std::move(name))).front();
    }

    /// Every rank of the world makes the same calls, also one that is no member. Blocks.
    [[nodiscard]] ProcessSet add_process_set(std::span<const std::int32_t> ranks) {
        const auto members = raw_set(ranks);
        ProcessSet set;
        detail::check(hvd_process_set_add(context_, &members, -1, &set.id));
        return set;
    }
    void remove_process_set(ProcessSet set) {
        detail::check(hvd_process_set_remove(context_, set.id, -1));
    }

    /// The world is the first.
    [[nodiscard]] std::vector<ProcessSet> process_sets() const {
        const auto ids = numbers([&](std::int32_t* place, std::size_t room, std::size_t* count) {
            return hvd_process_set_ids(context_, place, room, count);
        });
        std::vector<ProcessSet> sets;
        sets.reserve(ids.size());
        for (const auto id : ids) {
            sets.push_back({id});
        }
        return sets;
    }

    /// The ranks of a set, ascending.
    [[nodiscard]] std::vector<std::int32_t> ranks_of(ProcessSet set) const {
        return numbers([&](std::int32_t* place, std::size_t room, std::size_t* count) {
            return hvd_process_set_ranks(context_, set.id, place, room, count);
        });
    }

    [[nodiscard]] hvd_context* context() const noexcept { return context_; }

private:
    [[nodiscard]] std::vector<Pending> own(const std::vector<hvd_ticket>& tickets) const {
        std::vector<Pending> pending;
        pending.reserve(tickets.size());
        for (const auto ticket : tickets) {
            pending.emplace_back(context_, ticket);
        }
        return pending;
    }

    template <class T>
    [[nodiscard]] std::vector<std::remove_const_t<T>> result_of(const Request& request) {
        const auto pending = run(request);
        const auto all = pending.template result<std::remove_const_t<T>>();
        return {all.begin(), all.end()};
    }

    [[nodiscard]] static hvd_process_set raw_set(std::span<const std::int32_t> ranks) {
        hvd_process_set set{};
        set.struct_size = sizeof set;
        set.ranks = ranks.data();
        set.count = ranks.size();
        return set;
    }

    /// All that `ask` has, however many become known meanwhile.
    template <class Ask>
    [[nodiscard]] static std::vector<std::int32_t> numbers(const Ask& ask) {
        std::vector<std::int32_t> all;
        std::size_t count = 0;
        do {
            all.resize(count);
            detail::check(ask(all.data(), all.size(), &count));
        } while (count > all.size());
        all.resize(count);
        return all;
    }

    hvd_context* context_ = nullptr;
    hvd_topology topology_{};
};

/// Joins the world that the launcher made; without one, a world of one.
[[nodiscard]] inline World init(const InitOptions& options = {}) {
    return World(options);
}
[[nodiscard]] inline World init(std::chrono::milliseconds limit) {
    InitOptions options;
    options.limit = limit;
    return World(options);
}

}  // namespace hvd
