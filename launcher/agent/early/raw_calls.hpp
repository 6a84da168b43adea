// SPDX-License-Identifier: Apache-2.0
//
// System calls of x86-64 Linux without the C library. They return what the kernel does: a negative
// errno on failure.
#pragma once

#include <cstddef>
#include <type_traits>

#include <sys/mman.h>
#include <sys/syscall.h>

namespace hvd::launch::early {

template <class T>
[[gnu::always_inline]] inline long as_word(T value) noexcept {
    if constexpr (std::is_pointer_v<T>) {
        return reinterpret_cast<long>(value);
    } else {
        return static_cast<long>(value);
    }
}

/// The register variables are not const: GCC would take their values from anywhere.
template <class A = long, class B = long, class C = long, class D = long, class E = long>
[[gnu::always_inline]] inline long call(long number, A a = 0, B b = 0, C c = 0, D d = 0, E e = 0) {
    register long fourth asm("r10") = as_word(d);
    register long fifth asm("r8") = as_word(e);
    register long sixth asm("r9") = 0;
    long result = number;
    asm volatile("syscall"
                 : "+a"(result)
                 : "D"(as_word(a)), "S"(as_word(b)), "d"(as_word(c)), "r"(fourth), "r"(fifth),
                   "r"(sixth)
                 : "rcx", "r11", "memory");
    return result;
}

[[noreturn]] inline void leave(int exit_code) {
    while (true) {
        (void)call(SYS_exit_group, exit_code);
    }
}

/// Memory that is ours until the command is executed, or null.
inline char* allocate(std::size_t size) {
    const long address =
        call(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    return address < 0 ? nullptr : reinterpret_cast<char*>(address);
}

}  // namespace hvd::launch::early
