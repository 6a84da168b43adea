// SPDX-License-Identifier: Apache-2.0
//
// Threads of control that are switched by the program: no kernel, no parallelism.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <ucontext.h>

namespace hvd::sim {

/// One stack. `resume` runs the body until it calls `suspend` or ends.
class Fiber {
public:
    explicit Fiber(std::function<void()> body);
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    /// From the main stack.
    void resume();
    /// From the fiber's own stack.
    void suspend();

    [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }

private:
    /// The C++ runtime's state per thread about exceptions that are being handled.
    struct Exceptions {
        void* caught = nullptr;
        unsigned uncaught = 0;
    };

    static void enter(unsigned high, unsigned low);
    void run();
    void swap_exceptions() noexcept;

    std::function<void()> body_;
    std::byte* stack_;
    bool has_started_ = false;
    bool has_ended_ = false;
    Exceptions exceptions_;
    ucontext_t own_{};
    ucontext_t main_{};
    [[maybe_unused]] jmp_buf own_jump_{};  // not under AddressSanitizer
    [[maybe_unused]] jmp_buf main_jump_{};
    void* fake_stack_ = nullptr;  // AddressSanitizer's
    const void* main_bottom_ = nullptr;
    std::size_t main_size_ = 0;
};

}  // namespace hvd::sim
