# NCCL's header only: the library itself is opened at run time. NCCL_ROOT may name a Python
# package's folder (site-packages/nvidia/nccl).
find_path(NCCL_INCLUDE_DIR nccl.h HINTS "$ENV{NCCL_ROOT}" PATH_SUFFIXES include)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_INCLUDE_DIR)
if(NCCL_FOUND AND NOT TARGET NCCL::headers)
  add_library(NCCL::headers INTERFACE IMPORTED)
  set_target_properties(NCCL::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
mark_as_advanced(NCCL_INCLUDE_DIR)
