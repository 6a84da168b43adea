// SPDX-License-Identifier: Apache-2.0
//
// A libnccl.so.2 of version FAKE_VERSION, with the functions of such a version. Only
// ncclGetVersion may be called: the others are copies of it.
#include "collectives/nccl/library.hpp"

// Under another name in C++, since nccl.h has declared them with their types.
#define FAKE(name)                                                                      \
    extern "C" __attribute__((visibility("default"))) int fake_##name(int*) asm(#name); \
    int fake_##name(int* version) {                                                     \
        *version = FAKE_VERSION;                                                        \
        return 0;                                                                       \
    }
#define FAKE_LATER(name, since) FAKE(name)

HVD_NCCL_FUNCTIONS(FAKE)
#if FAKE_VERSION >= 21900
HVD_NCCL_LATER_FUNCTIONS(FAKE_LATER)
#endif
