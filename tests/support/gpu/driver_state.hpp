// SPDX-License-Identifier: Apache-2.0
//
// The state that the functions of the stand-in for the driver share.
#pragma once

#include "tests/support/gpu/call_counter.hpp"
#include "tests/support/gpu/control.hpp"
#include "tests/support/gpu/scheduler.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

struct CUctx_st {
    int device = 0;
    std::atomic<int> retained{0};
};

/// PTX, or a cubin.
struct CUmod_st {
    std::string image;

    [[nodiscard]] bool has_kernel(const std::string& name) const {
        return image.find(".entry " + name + "(") != std::string::npos ||
               image.find(".text." + name + '\0') != std::string::npos;
    }
};

namespace hvd::test::gpu {

inline constexpr int kDevices = 8;

/// The state of the driver that a call needs.
enum class Needs { nothing, init, context };

class DriverState final : public Control {
public:
    DriverState();

    /// Begins a call: the error that it returns, if it is to return one. `may_synchronise`: it is a
    /// violation while a collective is in flight.
    [[nodiscard]] CUresult begin(const char* function, Needs needs, bool may_synchronise = false);

    /// The stream of a handle; 0 where there is none.
    [[nodiscard]] Scheduler::Id stream(CUstream handle) const;

    [[nodiscard]] Scheduler& scheduler() { return scheduler_; }

    void choose_order(std::uint64_t seed) override { scheduler_.choose_order(seed); }
    void pause() override { scheduler_.pause(); }
    void resume() override { scheduler_.resume(); }
    void fail(const std::string& function, int number, CUresult result) override {
        calls_.fail(function, number, result);
    }
    void forgive() override { calls_.forgive(); }
    void delay(const std::string& function, std::chrono::microseconds time) override {
        calls_.delay(function, time);
    }
    void capture(CUstream stream) override { capturing_ = stream; }
    [[nodiscard]] bool is_capturing(CUstream stream) const {
        return stream != nullptr && stream == capturing_;
    }
    [[nodiscard]] int calls(const std::string& function) const override {
        return calls_.calls(function);
    }
    [[nodiscard]] std::vector<std::string> take_violations() override {
        return scheduler_.take_violations();
    }
    [[nodiscard]] std::vector<std::string> leaks() const override;
    void enqueue(CUstream handle, Step step, bool is_collective) override;
    [[nodiscard]] void* allocate(std::size_t bytes) override;
    void free(void* memory) override;
    void report(const std::string& violation) override { scheduler_.report(violation); }
    [[nodiscard]] bool has_collectives() const override { return scheduler_.has_collectives(); }
    [[nodiscard]] int current_device() const override;
    [[nodiscard]] std::size_t device_bytes() const override { return scheduler_.device_bytes(); }

    std::atomic<bool> is_initialised{false};
    std::atomic<int> modules{0};
    std::array<CUctx_st, kDevices> contexts;

private:
    std::atomic<CUstream> capturing_{nullptr};
    CallCounter<CUresult> calls_;
    Scheduler scheduler_;
    Scheduler::Id default_stream_;
};

/// The one of this process; its thread outlives everything.
[[nodiscard]] DriverState& state();

/// The contexts of this thread, the current one last.
[[nodiscard]] std::vector<CUcontext>& context_stack();

/// All functions: name, version and address.
struct DriverFunction {
    const char* name;
    int since;
    void* address;
};
[[nodiscard]] std::vector<DriverFunction> device_functions();
[[nodiscard]] std::vector<DriverFunction> memory_functions();
[[nodiscard]] std::vector<DriverFunction> stream_functions();

}  // namespace hvd::test::gpu

// A row of the tables: the type is checked against CUDA's own.
#define HVD_FAKE_ROW(name, since)                                                                  \
    DriverFunction {                                                                               \
#name, since, reinterpret_cast < void*>(static_cast <PFN_##name##_v##since>(&fake_##name)) \
    }

// The first lines of every function.
#define HVD_FAKE_BEGIN(...)                                                             \
    if (const auto hvd_error = state().begin(__VA_ARGS__); hvd_error != CUDA_SUCCESS) { \
        return hvd_error;                                                               \
    }
