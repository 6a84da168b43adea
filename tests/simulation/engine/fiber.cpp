// SPDX-License-Identifier: Apache-2.0
#undef _FORTIFY_SOURCE  // its longjmp takes a jump to another stack for an error
#include "tests/simulation/engine/fiber.hpp"

#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include <cxxabi.h>
#include <sys/mman.h>

#if defined(HVD_SANITIZE_ADDRESS)
#define HVD_SIM_ASAN 1
#include <sanitizer/common_interface_defs.h>
#else
#define HVD_SIM_ASAN 0
#endif

namespace hvd::sim {
namespace {

constexpr std::size_t kStackBytes = std::size_t{HVD_SIM_ASAN ? 1024 : 256} << 10;

/// Stacks of fibers that have ended, for the next ones.
std::vector<std::byte*>& free_stacks() {
    static std::vector<std::byte*> stacks;
    return stacks;
}

std::byte* take_stack() {
    auto& free = free_stacks();
    if (!free.empty()) {
        auto* const stack = free.back();
        free.pop_back();
        return stack;
    }
    void* const memory = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::bad_alloc();
    }
    return static_cast<std::byte*>(memory);
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(take_stack()) {}

Fiber::~Fiber() {
    free_stacks().push_back(stack_);
}

void Fiber::swap_exceptions() noexcept {
    auto* const globals = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
    std::swap(*globals, exceptions_);
}

void Fiber::enter(unsigned high, unsigned low) {
    const auto bits = (std::uintptr_t{high} << 32) | low;
    reinterpret_cast<Fiber*>(bits)->run();
}

void Fiber::run() {
#if HVD_SIM_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &main_bottom_, &main_size_);
#endif
    body_();
    has_ended_ = true;
    suspend();
    std::abort();  // nobody resumes a fiber that has ended
}

void Fiber::resume() {
    swap_exceptions();
#if HVD_SIM_ASAN
    void* main_fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&main_fake_stack, stack_, kStackBytes);
#endif
    if (!std::exchange(has_started_, true)) {
        (void)::getcontext(&own_);
        own_.uc_stack.ss_sp = stack_;
        own_.uc_stack.ss_size = kStackBytes;
        own_.uc_link = nullptr;
        const auto bits = reinterpret_cast<std::uintptr_t>(this);
        ::makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
                      static_cast<unsigned>(bits >> 32), static_cast<unsigned>(bits));
#if !HVD_SIM_ASAN
        if (_setjmp(main_jump_) == 0) {
            (void)::setcontext(&own_);
        }
#endif
    } else {
#if !HVD_SIM_ASAN
        if (_setjmp(main_jump_) == 0) {
            ::_longjmp(own_jump_, 1);
        }
#endif
    }
#if HVD_SIM_ASAN
    (void)::swapcontext(&main_, &own_);
    __sanitizer_finish_switch_fiber(main_fake_stack, nullptr, nullptr);
#endif
    swap_exceptions();
}

void Fiber::suspend() {
#if HVD_SIM_ASAN
    __sanitizer_start_switch_fiber(has_ended_ ? nullptr : &fake_stack_, main_bottom_, main_size_);
    (void)::swapcontext(&own_, &main_);
    __sanitizer_finish_switch_fiber(fake_stack_, &main_bottom_, &main_size_);
#else
    // Without the system calls for the signal mask that swapcontext makes.
    if (_setjmp(own_jump_) == 0) {
        ::_longjmp(main_jump_, 1);
    }
#endif
}

}  // namespace hvd::sim
