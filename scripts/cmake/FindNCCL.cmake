# NCCL's header, of version 2.27 or later: the library itself is opened at run time. It comes with the
# packages of scripts/requirements_gpu.txt; NCCL_ROOT may name another folder that has include/nccl.h
# (site-packages/nvidia/nccl). NCCL_LIBRARY, the library beside the header, is for a test alone.
find_path(NCCL_INCLUDE_DIR nccl.h
  HINTS "$ENV{NCCL_ROOT}" "${HVD_GPU_PACKAGES}/nvidia/nccl" PATH_SUFFIXES include)
if(NCCL_INCLUDE_DIR)
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" line REGEX "^#define NCCL_${part} " LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+" NCCL_VERSION_${part} "${line}")
  endforeach()
  set(NCCL_VERSION "${NCCL_VERSION_MAJOR}.${NCCL_VERSION_MINOR}.${NCCL_VERSION_PATCH}")
  find_file(NCCL_LIBRARY libnccl.so.2 HINTS "${NCCL_INCLUDE_DIR}/../lib" NO_DEFAULT_PATH)
endif()
set(NCCL_NEW_ENOUGH "")
if(NCCL_VERSION VERSION_GREATER_EQUAL 2.27)
  set(NCCL_NEW_ENOUGH ON)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_INCLUDE_DIR NCCL_NEW_ENOUGH)
if(NCCL_FOUND AND NOT TARGET NCCL::headers)
  add_library(NCCL::headers INTERFACE IMPORTED)
  set_target_properties(NCCL::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
