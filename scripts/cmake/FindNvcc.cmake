# The compiler of GPU kernels, of CUDA 13, which a CUDA Toolkit has or the packages of
# scripts/requirements_gpu.txt; no GPU is needed. Nvcc_PTXAS_12 is the assembler of CUDA 12, with which
# the PTX is tried as well where it is there.
find_program(Nvcc_EXECUTABLE nvcc HINTS "${HVD_GPU_PACKAGES}/nvidia/cu13/bin" /usr/local/cuda/bin)
if(Nvcc_EXECUTABLE)
  execute_process(COMMAND "${Nvcc_EXECUTABLE}" --version OUTPUT_VARIABLE text ERROR_QUIET)
  if(text MATCHES "release ([0-9]+\\.[0-9]+)")
    set(Nvcc_VERSION "${CMAKE_MATCH_1}")
  endif()
  # Beside nvcc itself, which may be reached by a script or a link.
  file(REAL_PATH "${Nvcc_EXECUTABLE}" nvcc)
  get_filename_component(folder "${nvcc}" DIRECTORY)
  find_program(Nvcc_PTXAS ptxas HINTS "${folder}" /usr/local/cuda/bin)
endif()
find_program(Nvcc_PTXAS_12 ptxas PATHS "${HVD_GPU_PACKAGES}/nvidia/cuda_nvcc/bin" NO_DEFAULT_PATH)
set(Nvcc_NEW_ENOUGH "")
if(Nvcc_VERSION VERSION_GREATER_EQUAL 13.0)
  set(Nvcc_NEW_ENOUGH ON)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Nvcc REQUIRED_VARS Nvcc_EXECUTABLE Nvcc_PTXAS Nvcc_NEW_ENOUGH)
mark_as_advanced(Nvcc_EXECUTABLE Nvcc_PTXAS Nvcc_PTXAS_12)
