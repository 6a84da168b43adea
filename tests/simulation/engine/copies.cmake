# Copies of shipped sources in which calls of the kernel are calls of the simulation. Run as
#   cmake -DFROM=<source tree> -DTO=<folder> -P copies.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/copy.cmake")
function(simulate file)
  copy("${FROM}/${file}" "${TO}/${file}" ${ARGN})
endfunction()

set(SYSTEM "#include \"tests/simulation/engine/system.hpp\"")

simulate(collectives/base/deadline.hpp
  "#pragma once" "#pragma once\n${SYSTEM}"
  "std::chrono::steady_clock" "sim::Clock")
simulate(runtime/control/byte_ring.hpp
  "std::size_t{64} << 10" "256")
simulate(runtime/control/shm_layout.hpp
  "kLogEntries = 4096" "kLogEntries = 32"
  "kSharedIds = std::size_t{1} << 16" "kSharedIds = 256")
simulate(runtime/control/shm_channel.cpp
  "::poll(&ended" "sim::poll_one(&ended")
simulate(runtime/engine/inbox.hpp
  "#include <sys/eventfd.h>" "#include \"runtime/control/shared_atomic.hpp\"\n${SYSTEM}"
  "eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)" "sim::make_event()"
  "(void)eventfd_write(event_.get(), 1)" "sim::event_write(event_.get())"
  "eventfd_t count = 0@SEMICOLON@" "(void)0@SEMICOLON@"
  "(void)eventfd_read(event_.get(), &count)" "sim::event_read(event_.get())"
  "std::atomic<" "SharedAtomic<"
  "std::mutex" "sim::Mutex")
simulate(runtime/engine/progress_lock.hpp
  "#pragma once" "#pragma once\n${SYSTEM}"
  "std::mutex" "sim::Mutex"
  "std::thread::id" "sim::ThreadId"
  "std::this_thread::get_id()" "sim::this_thread()")
simulate(runtime/engine/engine.hpp
  "std::jthread" "sim::Thread")
simulate(runtime/engine/engine.cpp
  "std::jthread" "sim::Thread"
  "std::this_thread::yield()" "sim::yield()"
  "(void)pthread_setname_np(pthread_self(), \"hvd-engine\")@SEMICOLON@" "(void)0@SEMICOLON@")
simulate(runtime/tensor/operation_pool.hpp
  "kMaxChunks = 16384" "kMaxChunks = 64")
simulate(runtime/tensor/futex.cpp
  "#include <sys/syscall.h>" "${SYSTEM}"
  "(void)syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected," "sim::futex_wait(word, expected,"
  "deadline.is_never() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY)" "deadline.is_never() ? nullptr : &until)"
  "(void)syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0)" "sim::futex_wake(word)")
foreach(header runtime/execution/executor.hpp runtime/execution/lane.hpp runtime/tensor/operation.hpp)
  simulate(${header}
    "#pragma once" "#pragma once\n${SYSTEM}"
    "std::chrono::steady_clock" "sim::Clock")
endforeach()
foreach(source runtime/execution/executor.cpp runtime/execution/lane.cpp)
  simulate(${source}
    "std::chrono::steady_clock" "sim::Clock")
endforeach()
