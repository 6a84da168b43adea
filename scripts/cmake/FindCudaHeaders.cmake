# The CUDA driver's headers, of version 12.8 or later: the driver itself is opened at run time. They come
# with a CUDA Toolkit, or with the packages of scripts/requirements_gpu.txt. CudaHeaders_ROOT may name a
# folder that has include/cuda.h.
find_program(CudaHeaders_NVCC nvcc)
file(REAL_PATH "${CudaHeaders_NVCC}" nvcc)
get_filename_component(nvcc_folder "${nvcc}" DIRECTORY)
find_path(CudaHeaders_INCLUDE_DIR cudaTypedefs.h PATH_SUFFIXES include
  HINTS "${HVD_GPU_PACKAGES}/nvidia/cu13" "${nvcc_folder}/.." /usr/local/cuda)
# nccl.h needs cuda_fp16.h, and that needs this.
find_path(CudaHeaders_CCCL_INCLUDE_DIR nv/target
  HINTS "${CudaHeaders_INCLUDE_DIR}/cccl" "${CudaHeaders_INCLUDE_DIR}" NO_DEFAULT_PATH)
if(CudaHeaders_INCLUDE_DIR)
  file(STRINGS "${CudaHeaders_INCLUDE_DIR}/cuda.h" line REGEX "^#define CUDA_VERSION " LIMIT_COUNT 1)
  if(line MATCHES "([0-9]+)$")
    math(EXPR major "${CMAKE_MATCH_1} / 1000")
    math(EXPR minor "${CMAKE_MATCH_1} % 1000 / 10")
    set(CudaHeaders_VERSION "${major}.${minor}")
  endif()
endif()
set(CudaHeaders_NEW_ENOUGH "")
if(CudaHeaders_VERSION VERSION_GREATER_EQUAL 12.8)
  set(CudaHeaders_NEW_ENOUGH ON)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudaHeaders REQUIRED_VARS
  CudaHeaders_INCLUDE_DIR CudaHeaders_CCCL_INCLUDE_DIR CudaHeaders_NEW_ENOUGH)
if(CudaHeaders_FOUND AND NOT TARGET CudaHeaders::headers)
  add_library(CudaHeaders::headers INTERFACE IMPORTED)
  set_target_properties(CudaHeaders::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CudaHeaders_INCLUDE_DIR};${CudaHeaders_CCCL_INCLUDE_DIR}")
endif()
mark_as_advanced(CudaHeaders_NVCC CudaHeaders_INCLUDE_DIR CudaHeaders_CCCL_INCLUDE_DIR)
