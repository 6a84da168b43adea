# Copies of shipped sources that have a bug each: the simulation must find it. Run as copies.cmake,
# after it. plant(<bug> <file> ...) is one line up to the file: CMakeLists.txt reads it.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/copy.cmake")
function(plant bug file)
  set(from "${FROM}/${file}")
  if(EXISTS "${TO}/${file}")
    set(from "${TO}/${file}")
  endif()
  copy("${from}" "${TO}/planted/${bug}/${file}" ${ARGN})
endfunction()

# Work that comes between the last step and the note that the rank sleeps waits for another wake-up.
plant(no_second_look runtime/engine/progress.cpp
  "return has_more ? step(Urgency::background) : inbox_.is_full()@SEMICOLON@"
  "return false@SEMICOLON@")
# Ranks that have not read of the old group's end set the ready bit of the new one.
plant(id_reused_early runtime/negotiation/coordinator.cpp
  "pool_(limits)"
  "pool_({.capacity = limits.capacity, .ids = limits.ids, .quarantine = 0})")
plant(set_counted_as_world runtime/control/shm_channel.cpp
  "static_cast<std::uint32_t>(set.size())"
  "static_cast<std::uint32_t>(size_)")
# Requests that become ready in one step are one batch, whatever their set.
plant(batch_mixes_sets runtime/engine/progress.cpp
  "        ready_.clear()@SEMICOLON@\n        HVD_TRY(const bool more"
  "        HVD_TRY(const bool more"
  "        if (!ready_.empty()) {\n            execute_ready()@SEMICOLON@\n            break@SEMICOLON@  // started first: somebody waits for it\n        }\n        if (!more) {\n"
  "        if (!more) {\n            if (!ready_.empty()) {\n                executor_.enqueue(ready_, negotiator_.fusion_bytes())@SEMICOLON@\n                ready_.clear()@SEMICOLON@\n            }\n")
plant(joined_left_out runtime/engine/set_negotiation.cpp
  "decided_.push_back(neutral)@SEMICOLON@"
  "(void)neutral@SEMICOLON@")
# A proposal is seen before the payload that travels with it.
plant(tag_before_payload runtime/control/shm_rounds.cpp
  "    own.tag.store(tag, std::memory_order_release)@SEMICOLON@\n" "    (void)0@SEMICOLON@\n"
  "    own.payload_bytes.store("
  "    own.tag.store(tag, std::memory_order_release)@SEMICOLON@\n    own.payload_bytes.store(")
# A rank that expects nothing sleeps on, and the others wait for room in the log.
plant(outsider_sleeps_on runtime/control/shm_log.cpp
  "group_.notify_always(rank)"
  "group_.notify(rank)")
