// SPDX-License-Identifier: Apache-2.0
//
// The controls of the stand-in for the CUDA driver, for tests and for the stand-in for NCCL.
//
// The stand-in is a libcuda.so.1 that is opened as the real one is. Its devices are host memory and
// one thread, which runs what streams hold: in each step the next operation of any stream whose
// event has come, chosen by a seeded generator. So whatever events do not order happens in any
// order.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hvd::test::gpu {

/// Memory that an operation reads or writes.
struct Access {
    const void* address = nullptr;
    std::size_t bytes = 0;
    bool is_write = false;
};

/// Tells what an operation accesses, before it does.
using Touch = std::function<void(const Access&)>;

/// Runs a part of an operation; true once the operation has finished. Never blocks.
using Step = std::function<bool(const Touch&)>;

/// Thread: any. Used through `control` below.
class Control {
public:
    virtual ~Control() = default;
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;

    /// Orders of another seed; 0: streams run in turn.
    virtual void choose_order(std::uint64_t seed) = 0;

    /// Nothing runs until `resume`. A call that waits for a stream meanwhile is reported, and
    /// resumes.
    virtual void pause() = 0;
    virtual void resume() = 0;

    /// The call number `number` of `function` from now on (0 is the next) returns `result`.
    virtual void fail(const std::string& function, int number, CUresult result) = 0;

    /// No call fails any more.
    virtual void forgive() = 0;

    /// Every call of `function` takes that long.
    virtual void delay(const std::string& function, std::chrono::microseconds time) = 0;

    /// `stream` captures a graph from now on; nullptr: none does.
    virtual void capture(CUstream stream) = 0;

    /// How often it has been called.
    [[nodiscard]] virtual int calls(const std::string& function) const = 0;

    /// Calls and accesses that a GPU forbids, or that would be races on it. Waits until the streams
    /// are empty. Each violation is returned once.
    [[nodiscard]] virtual std::vector<std::string> take_violations() = 0;

    /// Objects and memory that were made and not destroyed: "128 bytes of device memory", "1
    /// stream".
    [[nodiscard]] virtual std::vector<std::string> leaks() const = 0;

    /// Puts an operation into a stream. A collective is one: while it is in flight, calls that may
    /// synchronise the device are violations.
    virtual void enqueue(CUstream stream, Step step, bool is_collective) = 0;

    /// Memory of this thread's device, in the order of no stream.
    [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
    virtual void free(void* memory) = 0;

    virtual void report(const std::string& violation) = 0;

    /// Whether a collective waits in a stream or runs.
    [[nodiscard]] virtual bool has_collectives() const = 0;

    /// The device of this thread's current context; -1 without one.
    [[nodiscard]] virtual int current_device() const = 0;

    /// The device memory that is allocated now, in bytes.
    [[nodiscard]] virtual std::size_t device_bytes() const = 0;

protected:
    Control() = default;
};

/// The symbol of the stand-in that gives it: Control* hvd_fake_cuda().
inline constexpr const char* kControlSymbol = "hvd_fake_cuda";
using ControlFunction = Control* (*)();

}  // namespace hvd::test::gpu
