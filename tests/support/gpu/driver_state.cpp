// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/driver_state.hpp"

#include <cudaTypedefs.h>

namespace hvd::test::gpu {

DriverState::DriverState() : default_stream_(scheduler_.make_stream()) {
    for (int device = 0; device < kDevices; ++device) {
        contexts.at(static_cast<std::size_t>(device)).device = device;
    }
    (void)scheduler_.drop_stream(default_stream_);  // nobody's to destroy, so no leak
}

CUresult DriverState::begin(const char* function, Needs needs, bool may_synchronise) {
    if (const auto injected = calls_.call(function)) {
        return *injected;
    }
    if (scheduler_.is_own_thread()) {
        report(std::string(function) + " is called in a host function");
        return CUDA_ERROR_NOT_PERMITTED;
    }
    if (needs != Needs::nothing && !is_initialised) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (needs == Needs::context && context_stack().empty()) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (may_synchronise && scheduler_.has_collectives()) {
        report(std::string(function) +
               " may synchronise the device while a collective is in flight");
    }
    return CUDA_SUCCESS;
}

Scheduler::Id DriverState::stream(CUstream handle) const {
    if (handle == nullptr) {
        return default_stream_;
    }
    const auto id = reinterpret_cast<Scheduler::Id>(handle);
    return scheduler_.has_stream(id) ? id : 0;
}

std::vector<std::string> DriverState::leaks() const {
    auto leaks = scheduler_.leaks();
    const auto add = [&](int count, const char* name) {
        if (count != 0) {
            leaks.push_back(std::to_string(count) + " " + name);
        }
    };
    add(modules, "modules");
    for (const auto& context : contexts) {
        add(context.retained, "retained contexts");
    }
    return leaks;
}

void DriverState::enqueue(CUstream handle, Step step, bool is_collective) {
    const auto id = stream(handle);
    if (id == 0) {
        report("an operation on a stream that is not there");
        return;
    }
    scheduler_.enqueue(id, std::move(step), false, is_collective);
}

void* DriverState::allocate(std::size_t bytes) {
    return scheduler_.with_memory([&](Memory& memory) {
        return memory.allocate(bytes, Memory::Kind::device, current_device());
    });
}

void DriverState::free(void* address) {
    scheduler_.drain();
    if (!scheduler_.with_memory(
            [&](Memory& memory) { return memory.free(address, Memory::Kind::device); })) {
        report("freed what is no allocation, or a second time");
    }
}

int DriverState::current_device() const {
    const auto& stack = context_stack();
    return stack.empty() ? -1 : stack.back()->device;
}

DriverState& state() {
    static auto& only = *new DriverState;  // its thread may run until the process ends
    return only;
}

std::vector<CUcontext>& context_stack() {
    thread_local std::vector<CUcontext> stack;
    return stack;
}

}  // namespace hvd::test::gpu
