# hvd_ptx(<target> <source.cu>): compiles the kernels for every compute capability of the list, and adds
# their PTX, their cubins and ptx_modules() to the target. See CheckPtx.cmake.
function(hvd_ptx target source)
  string(REGEX MATCH "^[0-9]+" toolkit "${Nvcc_VERSION}")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/ptx")
  file(MAKE_DIRECTORY "${folder}")
  set(rows "")
  set(texts "")
  set(files "")
  # Each with the lowest version of PTX that has it, so that older drivers take it.
  foreach(pair 75:6.3 80:7.0 90:7.8 100:8.6)
    string(REPLACE ":" ";" pair "${pair}")
    list(GET pair 0 capability)
    list(GET pair 1 version)
    set(ptx "${folder}/pack_${capability}.ptx")
    add_custom_command(OUTPUT "${ptx}" "${ptx}.cubin"
      COMMAND "${Nvcc_EXECUTABLE}" --ptx -arch=compute_${capability} -std=c++20 --expt-relaxed-constexpr
        -allow-unsupported-compiler --fmad=false
        -I "${PROJECT_SOURCE_DIR}" -MD -MT "${ptx}" -MF "${ptx}.d" -o "${ptx}.new" "${source}"
      COMMAND "${CMAKE_COMMAND}" -Dptx=${ptx} -Dversion=${version} -Dcapability=${capability}
        "-Dassemblers=${Nvcc_PTXAS}|${Nvcc_PTXAS_12}" -P "${PROJECT_SOURCE_DIR}/scripts/cmake/CheckPtx.cmake"
      DEPENDS "${source}" "${PROJECT_SOURCE_DIR}/scripts/cmake/CheckPtx.cmake"
      DEPFILE "${ptx}.d" VERBATIM COMMENT "Compiling GPU kernels for compute capability ${capability}")
    string(APPEND texts
      "HVD_MODULE(hvd_ptx_${capability}, \"${ptx}\")\n"
      "HVD_MODULE(hvd_cubin_${capability}, \"${ptx}.cubin\")\n")
    string(APPEND rows
      "        Ptx{${capability}, text(hvd_ptx_${capability}, hvd_ptx_${capability}_end),\n"
      "            {hvd_cubin_${capability}, hvd_cubin_${capability}_end}},\n")
    list(APPEND files "${ptx}" "${ptx}.cubin")
  endforeach()
  file(CONFIGURE OUTPUT "${folder}/modules.cpp" CONTENT "// Made by HvdPtx.cmake.
#include \"collectives/cuda/ptx.hpp\"

#include <array>
#include <cstddef>

// The bytes of a file, with a NUL behind them.
#define HVD_MODULE(name, file)                                                              \
    asm(\".section .rodata\\n.balign 16\\n\" #name \": .incbin \\\"\" file \"\\\"\\n\"       \
        #name \"_end: .byte 0\\n.previous\");                                               \
    extern \"C\" const std::byte name[], name##_end[];

@texts@
namespace hvd::coll::cuda {

int toolkit_major() noexcept {
    return @toolkit@;
}

namespace {

std::string_view text(const std::byte* begin, const std::byte* end) noexcept {
    return {reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin)};
}

}  // namespace

std::span<const Ptx> ptx_modules() noexcept {
    static const std::array modules{
@rows@    };
    return modules;
}

}  // namespace hvd::coll::cuda
" @ONLY)
  set_source_files_properties("${folder}/modules.cpp" PROPERTIES
    OBJECT_DEPENDS "${files}" SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE "${folder}/modules.cpp")
endfunction()
