// SPDX-License-Identifier: Apache-2.0
//
// In the place of the shipped header: other ranks may run at every access, and a store that is not
// sequentially consistent may stay in its thread's store buffer for a while, as on x86 (TSO).
#pragma once

#include "tests/simulation/engine/scheduler.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>

namespace hvd::rt {

template <class T>
class SharedAtomic {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));

public:
    SharedAtomic() noexcept = default;
    SharedAtomic(T value) noexcept : value_(value) {}  // NOLINT(google-explicit-constructor)
    SharedAtomic(const SharedAtomic&) = delete;
    SharedAtomic& operator=(const SharedAtomic&) = delete;
    ~SharedAtomic() = default;

    [[nodiscard]] T load(std::memory_order /*order*/ = std::memory_order_seq_cst) const noexcept {
        auto& scheduler = touch();
        if (const auto* const store = scheduler.buffered(&value_)) {
            return value_of(store->bits);
        }
        return value_;
    }
    void store(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
        auto& scheduler = touch();
        if (order == std::memory_order_seq_cst || !scheduler.buffers_stores()) {
            scheduler.drain();
            value_ = value;
            return;
        }
        std::uint64_t bits = 0;
        std::memcpy(&bits, &value, sizeof value);
        scheduler.buffer(&value_, bits, sizeof value);
    }
    T exchange(T value, std::memory_order /*order*/ = std::memory_order_seq_cst) noexcept {
        return modify([&](T) { return value; });
    }
    T fetch_add(T value, std::memory_order /*order*/ = std::memory_order_seq_cst) noexcept {
        return modify([&](T old) { return static_cast<T>(old + value); });
    }
    T fetch_or(T value, std::memory_order /*order*/ = std::memory_order_seq_cst) noexcept {
        return modify([&](T old) { return static_cast<T>(old | value); });
    }
    T fetch_and(T value, std::memory_order /*order*/ = std::memory_order_seq_cst) noexcept {
        return modify([&](T old) { return static_cast<T>(old & value); });
    }
    bool compare_exchange_weak(T& expected,
                               T value,
                               std::memory_order /*order*/ = std::memory_order_seq_cst) noexcept {
        bool is_equal = false;
        const T old = modify([&](T now) {
            is_equal = now == expected;
            return is_equal ? value : now;
        });
        expected = old;
        return is_equal;
    }
    operator T() const noexcept { return load(); }  // NOLINT(google-explicit-constructor)

private:
    static sim::Scheduler& touch() noexcept {
        auto& scheduler = sim::Scheduler::current();
        scheduler.touch();
        return scheduler;
    }
    static T value_of(std::uint64_t bits) noexcept {
        T value{};
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }
    template <class Change>
    T modify(Change change) noexcept {
        auto& scheduler = touch();
        scheduler.drain();
        const T old = value_;
        value_ = change(old);
        return old;
    }

    T value_{};
};

inline void shared_fence() noexcept {
    auto& scheduler = sim::Scheduler::current();
    scheduler.touch();
    scheduler.drain();
}

}  // namespace hvd::rt
