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

namespace hvd {

/// Why a call failed: what a caller can do about it, and a sentence for people.
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

enum class ReduceOp : std::int32_t {
    average = HVD_AVERAGE,
    sum = HVD_SUM,
    min = HVD_MIN,
    max = HVD_MAX,
    product = HVD_PRODUCT,
};

/// 16-bit floating-point numbers as their bits; C++20 has no types for them.
struct Float16 {
    std::uint16_t bits;
};
struct BFloat16 {
    std::uint16_t bits;
};

/// The hvd_dtype of T, or -1.
template <class T>
[[nodiscard]] constexpr std::int32_t dtype_of() noexcept {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, bool>) {
        return HVD_BOOL;
    } else if constexpr (std::is_same_v<U, Float16>) {
        return HVD_FLOAT16;
    } else if constexpr (std::is_same_v<U, BFloat16>) {
        return HVD_BFLOAT16;
    } else if constexpr (std::is_same_v<U, float>) {
        return HVD_FLOAT32;
    } else if constexpr (std::is_same_v<U, double>) {
        return HVD_FLOAT64;
    } else if constexpr (std::is_integral_v<U>) {
        constexpr bool kSigned = std::is_signed_v<U>;
        switch (sizeof(U)) {
            case 1: return kSigned ? HVD_INT8 : HVD_UINT8;
            case 2: return kSigned ? HVD_INT16 : HVD_UINT16;
            case 4: return kSigned ? HVD_INT32 : HVD_UINT32;
            case 8: return kSigned ? HVD_INT64 : HVD_UINT64;
            default: return -1;
        }
    } else {
        return -1;
    }
}

template <class T>
concept Element = dtype_of<T>()
>= 0;

/// How an allreduce reduces.
struct Reduction {
    ReduceOp op = ReduceOp::average;
    double prescale = 1;   // of every input
    double postscale = 1;  // of the result
};

/// One operation for World::submit or a Plan: values that must stay valid until it has ended.
class Request {
public:
    /// The result takes the place of `data`.
    template <Element T>
    [[nodiscard]] static Request allreduce(std::string name,
                                           std::span<T> data,
                                           Reduction reduction = {}) {
        Request request(std::move(name), HVD_ALLREDUCE, data);
        request.reduce_op_ = static_cast<std::int32_t>(reduction.op);
        request.prescale_ = reduction.prescale;
        request.postscale_ = reduction.postscale;
        return request;
    }

    /// Rank `root`'s values take the place of everybody's.
    template <Element T>
    [[nodiscard]] static Request broadcast(std::string name, std::span<T> data, int root) {
        Request request(std::move(name), HVD_BROADCAST, data);
        request.root_ = root;
        return request;
    }

    /// The result has its own memory: World::result.
    template <Element T>
    [[nodiscard]] static Request allgather(std::string name, std::span<T> data) {
        Request request(std::move(name), HVD_ALLGATHER, data);
        request.in_place_ = false;
        return request;
    }

    [[nodiscard]] static Request barrier(std::string name) {
        Request request(std::move(name), HVD_BARRIER, std::span<float>());
        request.has_tensor_ = false;
        return request;
    }

    /// Calls `use` with the request as the C ABI wants it, which is valid during that call.
    template <class Use>
    static auto with_raw(std::span<const Request> requests, const Use& use) {
        std::vector<hvd_tensor> tensors(requests.size());
        std::vector<hvd_request> raw(requests.size());
        for (std::size_t index = 0; index < requests.size(); ++index) {
            const Request& from = requests[index];
            auto& tensor = tensors[index];
            tensor.struct_size = sizeof tensor;
            tensor.data = from.data_;
            tensor.shape = &from.count_;
            tensor.ndim = 1;
            tensor.dtype = from.dtype_;
            auto& request = raw[index];
            request.struct_size = sizeof request;
            request.name = from.name_.c_str();
            request.in = from.has_tensor_ ? &tensor : nullptr;
            request.out = from.in_place_ ? request.in : nullptr;
            request.prescale = from.prescale_;
            request.postscale = from.postscale_;
            request.op = from.op_;
            request.reduce_op = from.reduce_op_;
            request.root = from.root_;
        }
        return use(std::span<const hvd_request>(raw));
    }

private:
    template <class T>
    Request(std::string name, hvd_op op, std::span<T> data)
        : name_(std::move(name)),
          // The C type has no const; only allgather takes const data, and it writes nothing.
          // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
          data_(const_cast<std::remove_const_t<T>*>(data.data())),
          count_(static_cast<std::int64_t>(data.size())),
          dtype_(dtype_of<T>()),
          op_(op) {}

    std::string name_;
    void* data_;
    std::int64_t count_;
    std::int32_t dtype_;
    std::int32_t op_;
    std::int32_t reduce_op_ = HVD_SUM;
    std::int32_t root_ = 0;
    double prescale_ = 1;
    double postscale_ = 1;
    bool has_tensor_ = true;
    bool in_place_ = true;
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

/// This process's membership in the world. It leaves when the object ends.
class World {
public:
    explicit World(std::optional<std::chrono::milliseconds> limit = {}) {
        hvd_init_options options{};
        options.struct_size = sizeof options;
        options.timeout_ms = limit ? limit->count() : 0;
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
    void allreduce(std::string name, std::span<T> data, Reduction reduction = {}) {
        run(Request::allreduce(std::move(name), data, reduction));
    }
    template <Element T>
    void broadcast(std::string name, std::span<T> data, int root) {
        run(Request::broadcast(std::move(name), data, root));
    }
    template <Element T>
    [[nodiscard]] std::vector<std::remove_const_t<T>> allgather(std::string name,
                                                                std::span<T> data) {
        const auto pending = run(Request::allgather(std::move(name), data));
        const auto all = pending.template result<std::remove_const_t<T>>();
        return {all.begin(), all.end()};
    }
    void barrier(std::string name = "barrier") { run(Request::barrier(std::move(name))); }

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

    hvd_context* context_ = nullptr;
    hvd_topology topology_{};
};

/// Joins the world that the launcher made; without one, a world of one.
[[nodiscard]] inline World init(std::optional<std::chrono::milliseconds> limit = {}) {
    return World(limit);
}

}  // namespace hvd
