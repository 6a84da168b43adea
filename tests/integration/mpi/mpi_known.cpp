// SPDX-License-Identifier: Apache-2.0
//
// The sanitizers leave MPI's own libraries out, which are not built with them. To see
// their names, stacks of memory have to be unwound the slow way: they keep no frame pointers.
// The run times of GCC 12 and clang 14 guess where the thread-local memory of a library that is
// loaded later begins, from words before it, which may be anything: the search for leaks then dies
// of signal 11.

// NOLINTBEGIN(bugprone-reserved-identifier): the sanitizers call them by these names
#if defined(HVD_SANITIZE_ADDRESS)

extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
    return "fast_unwind_on_malloc=0:intercept_tls_get_addr=0";
}

extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
    return "leak:libmpi.so\n"
           "leak:libmpich.so\n"
           "leak:libopen-pal.so\n"
           "leak:libopen-rte.so\n"
           "leak:libpmix.so\n"
           "leak:libevent\n"
           "leak:libhwloc.so\n";
}

#elif defined(HVD_SANITIZE_THREAD)

#include <cstdlib>

// UCX, below MPICH, writes its hooks over the functions that this sanitizer has replaced already.
__attribute__((constructor)) static void leave_functions_alone() {
    (void)::setenv("UCX_MEM_EVENTS", "no", 0);  // NOLINT(concurrency-mt-unsafe): before main
}

extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
    return "race:libmpi.so\n"
           "race:libmpich.so\n"
           "race:libopen-pal.so\n"
           "race:libopen-rte.so\n"
           "race:libpmix.so\n"
           "race:libevent\n"
           "race:mca_\n"
           "mutex:libmpi.so\n"
           "mutex:libmpich.so\n"
           "mutex:libopen-pal.so\n"
           "mutex:libopen-rte.so\n"
           "mutex:libpmix.so\n"
           "mutex:libevent\n"
           "mutex:mca_\n"
           "deadlock:libmpi.so\n"
           "deadlock:libmpich.so\n"
           "deadlock:libopen-pal.so\n"
           "deadlock:libopen-rte.so\n"
           "deadlock:libpmix.so\n"
           "deadlock:libevent\n"
           "deadlock:mca_\n";
}

#endif
// NOLINTEND(bugprone-reserved-identifier)
