# Copies of shipped sources in which calls of the kernel are calls of the simulation. Run as
#   cmake -DFROM=<source tree> -DTO=<folder> -P copies.cmake
cmake_minimum_required(VERSION 3.25)
# Each replacement must find its text, so that a change of a source cannot pass unseen.

# copy(<file> [<text> <other text>]...): each occurrence is replaced.
function(copy file)
  file(READ "${FROM}/${file}" text)
  # Semicolons and brackets would make lists of the text.
  string(REPLACE ";" "@SEMICOLON@" text "${text}")
  while(ARGN)
    list(POP_FRONT ARGN old new)
    string(FIND "${text}" "${old}" place)
    if(place EQUAL -1)
      message(FATAL_ERROR "${file} has no longer the text\n${old}")
    endif()
    string(REPLACE "${old}" "${new}" text "${text}")
  endwhile()
  string(REPLACE "@SEMICOLON@" ";" text "${text}")
  set(before "")
  if(EXISTS "${TO}/${file}")
    file(READ "${TO}/${file}" before)
  endif()
  if(NOT before STREQUAL text)
    file(WRITE "${TO}/${file}" "${text}")
  endif()
endfunction()

set(SYSTEM "#include \"tests/simulation/engine/system.hpp\"")

copy(collectives/base/deadline.hpp
  "#pragma once" "#pragma once\n${SYSTEM}"
  "std::chrono::steady_clock" "sim::Clock")
copy(collectives/transport/tcp/connection.cpp
  "::sendmsg(" "sim::sendmsg("
  "::recvmsg(" "sim::recvmsg(")
copy(runtime/control/byte_ring.hpp
  "std::size_t{64} << 10" "256")
copy(runtime/control/shm_layout.hpp
  "kLogEntries = 4096" "kLogEntries = 32"
  "kSharedIds = std::size_t{1} << 16" "kSharedIds = 256")
copy(runtime/control/shm_channel.cpp
  "::poll(&ended" "sim::poll_one(&ended")
copy(runtime/engine/inbox.hpp
  "#include <sys/eventfd.h>" "#include \"runtime/control/shared_atomic.hpp\"\n${SYSTEM}"
  "eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)" "sim::make_event()"
  "(void)eventfd_write(event_.get(), 1)" "sim::event_write(event_.get())"
  "eventfd_t count = 0@SEMICOLON@" ""
  "(void)eventfd_read(event_.get(), &count)" "sim::event_read(event_.get())"
  "std::atomic<" "SharedAtomic<"
  "std::mutex" "sim::Mutex")
copy(runtime/engine/progress_lock.hpp
  "#pragma once" "#pragma once\n${SYSTEM}"
  "std::mutex" "sim::Mutex"
  "std::thread::id" "sim::ThreadId"
  "std::this_thread::get_id()" "sim::this_thread()")
copy(runtime/engine/engine.hpp
  "std::jthread" "sim::Thread")
copy(runtime/engine/engine.cpp
  "std::jthread" "sim::Thread"
  "std::this_thread::yield()" "sim::yield()"
  "(void)pthread_setname_np(pthread_self(), \"hvd-engine\")@SEMICOLON@" "")
copy(runtime/tensor/ticket_table.hpp
  "kMaxChunks = 16384" "kMaxChunks = 64")
copy(runtime/tensor/ticket_table.cpp
  "#include <sys/syscall.h>" "${SYSTEM}"
  "(void)syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected," "sim::futex_wait(word, expected,"
  "deadline.is_never() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY)" "deadline.is_never() ? nullptr : &until)"
  "(void)syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0)" "sim::futex_wake(word)")
