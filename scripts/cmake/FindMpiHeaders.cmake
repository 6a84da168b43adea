# The mpi.h of Open MPI and that of MPICH, side by side: each plugin of collectives/mpi is compiled
# against one of them, and links neither. OPENMPI_ROOT and MPICH_ROOT may name other installations.
find_path(OpenMpi_INCLUDE_DIR mpi.h NO_DEFAULT_PATH
  HINTS "$ENV{OPENMPI_ROOT}" PATHS "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi" /usr/lib64/openmpi
  PATH_SUFFIXES include)
find_path(Mpich_INCLUDE_DIR mpi.h NO_DEFAULT_PATH
  HINTS "$ENV{MPICH_ROOT}" PATHS "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/mpich" /usr/lib64/mpich
  PATH_SUFFIXES include)
set(MpiHeaders_INCLUDE_DIRS ${OpenMpi_INCLUDE_DIR} ${Mpich_INCLUDE_DIR})  # one of them will do
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MpiHeaders REQUIRED_VARS MpiHeaders_INCLUDE_DIRS)
foreach(name OpenMpi Mpich)
  if(${name}_INCLUDE_DIR AND NOT TARGET ${name}::headers)
    add_library(${name}::headers INTERFACE IMPORTED)
    set_target_properties(${name}::headers PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}")
  endif()
endforeach()
mark_as_advanced(OpenMpi_INCLUDE_DIR Mpich_INCLUDE_DIR)
