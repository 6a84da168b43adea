# Flags every first-party target shares. Third-party code never links this.
add_library(hvd_flags INTERFACE)
target_compile_features(hvd_flags INTERFACE cxx_std_20)
target_include_directories(hvd_flags INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(hvd_flags INTERFACE
  -ffunction-sections -fdata-sections
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=  # no build path in an installed file, nor in ccache's key
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
                            -Woverloaded-virtual -Wextra-semi>
  # g++ 12 sees overlaps and overflows in std::string and std::vector that are not there (GCC bugs
  # 105651, 105329).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict;-Wno-stringop-overflow>
  $<$<AND:$<BOOL:${HVD_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)
target_link_options(hvd_flags INTERFACE LINKER:--gc-sections)
# The parts that a small operation passes through (hvd_whole) are optimised as one where libhorovod is
# linked: it takes a seventh less time. Tests and programs link the plain code that these objects have
# too. The loops of collectives/reduce stay apart, whose bits depend on their flags.
set(HVD_WHOLE OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release")
  set(HVD_WHOLE ON)
  target_link_options(hvd_flags INTERFACE
    "$<IF:$<BOOL:$<TARGET_PROPERTY:HVD_IS_WHOLE>>,-flto=auto;-Wno-stringop-overflow,-fno-lto>")
endif()
function(hvd_whole)
  foreach(target IN LISTS ARGN)
    set_target_properties(${target} PROPERTIES HVD_IS_WHOLE ${HVD_WHOLE})
    target_compile_options(${target} PRIVATE
      "$<$<BOOL:${HVD_WHOLE}>:-flto=auto;-ffat-lto-objects>")
  endforeach()
endfunction()
string(REPLACE "," ";" HVD_SANITIZERS "${HVD_SANITIZE}")
set(HVD_NO_UNDEFINED LINKER:--no-undefined)
if(HVD_SANITIZE)
  set(HVD_NO_UNDEFINED "")  # clang's sanitizers are in programs only; plain builds check
  # Instrumented code confuses g++'s flow analysis (GCC bug 105562); the plain build keeps the warning.
  target_compile_options(hvd_flags INTERFACE -fsanitize=${HVD_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all  # undefined behaviour would be a line in the output and no more
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  target_link_options(hvd_flags INTERFACE -fsanitize=${HVD_SANITIZE})
  # The preset asan leaves out what does nothing at -O0 (object-size), calls through our own
  # declarations of another library's types (function), and what fails where no descriptor is left for
  # a pipe of UBSan's (vptr).
  if(HVD_NO_SANITIZE)
    target_compile_options(hvd_flags INTERFACE -fno-sanitize=${HVD_NO_SANITIZE})
  endif()
else()
  # Users' machines have any libstdc++. With sections collected this needs no more than glibc 2.34;
  # libgcc_s stays shared, its static form would need 2.35.
  target_link_options(hvd_flags INTERFACE $<$<LINK_LANGUAGE:CXX>:-static-libstdc++>)
endif()
if(HVD_FUZZ)
  target_compile_options(hvd_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
foreach(sanitizer address thread)  # g++ has macros for them, clang has __has_feature: one name for both
  if(sanitizer IN_LIST HVD_SANITIZERS)
    string(TOUPPER ${sanitizer} name)
    target_compile_definitions(hvd_flags INTERFACE HVD_SANITIZE_${name})
  endif()
endforeach()

# Target properties, which cannot travel through hvd_flags. Third-party targets never get them.
function(hvd_own target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:hvd_flags>)
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    CXX_CLANG_TIDY "${HVD_CLANG_TIDY}"
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
endfunction()

# HVD_PRECOMPILE: the headers that most sources include are parsed twice, with -fPIC for libraries and
# with -fPIE and Catch2 for tests (tests/CMakeLists.txt). Sources with compile options of their own need
# SKIP_PRECOMPILE_HEADERS. The other presets show a missing #include, and the warnings: g++ no longer knows
# what of them comes from a system's header, so tsan has none.
function(hvd_precompile target)
  hvd_own(${target})
  target_precompile_headers(${target} PRIVATE
    <algorithm> <array> <chrono> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span>
    <string> <string_view> <system_error> <utility> <variant> <vector> ${ARGN})
  target_compile_options(${target} PRIVATE
    "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")  # for ccache
endfunction()
if(HVD_PRECOMPILE)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cpp" CONTENT "int main() {}\n")
  add_library(precompiled_library OBJECT "${PROJECT_BINARY_DIR}/precompiled.cpp")
  hvd_precompile(precompiled_library)
endif()
function(hvd_reuse_precompiled target from)
  if(HVD_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${from})
  endif()
endfunction()

# hvd_library(<name> SOURCES ... [PUBLIC deps...] [PRIVATE deps...])
# A static library that becomes part of libhorovod or of a program, aliased as hvd::<name>.
function(hvd_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PUBLIC;PRIVATE")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "hvd_library(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_library(hvd_${name} STATIC ${arg_SOURCES})
  add_library(hvd::${name} ALIAS hvd_${name})
  hvd_own(hvd_${name})
  target_link_libraries(hvd_${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  hvd_reuse_precompiled(hvd_${name} precompiled_library)
endfunction()

# hvd_test(<name> SOURCES ... LIBS ... LABEL word [TIMEOUT seconds] [SERIAL] [CASES pattern...])
# One program per module; each TEST_CASE becomes one ctest entry. LABEL is one word: a list loses
# the other properties in Catch2 2.13. SERIAL is for cases that measure time: nothing runs beside them.
# CASES are those of the cases in SOURCES that are run; all without it.
# TIMEOUT (10 s) is for the plain code; under sanitizers, and in an emulator, everything may take three
# times as long.
function(hvd_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "LABEL;TIMEOUT" "SOURCES;LIBS;CASES")
  if(NOT arg_LABEL)
    message(FATAL_ERROR "hvd_test(${name}): LABEL is required (unit, integration, e2e, ...)")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 10)
  endif()
  if(HVD_SANITIZE OR CMAKE_CROSSCOMPILING)
    math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  hvd_own(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_link_libraries(${name} PRIVATE hvd::test_main ${arg_LIBS})
  hvd_reuse_precompiled(${name} precompiled_test)
  list(JOIN arg_CASES "," cases)
  # hvd::test_main is our own main: 0 all passed, 1 anything failed, 77 only when a case called
  # hvd::test::skip(reason) and nothing failed.
  catch_discover_tests(${name}
    TEST_SPEC ${cases}
    TEST_PREFIX "${name}: "
    PROPERTIES LABELS "${arg_LABEL}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
               RUN_SERIAL ${arg_SERIAL})
endfunction()
