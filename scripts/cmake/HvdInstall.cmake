# One layout, whether `cmake --install` or the wheel makes it; every part finds the others by it:
#   bin/{horovodrun,hvd-bench}                         run ../libexec/horovod, load ../lib
#   libexec/horovod/{hvd-agent,hvd-gpu-probe}
#   lib/{libhorovod.so,libhorovod_tf.so}               no version in the name: a wheel has no links
#   lib/horovod/                                       plugins
#   lib/pythonX.Y/site-packages/horovod/               loads ../../../libhorovod.so
#   share/man/man1/horovodrun.1                       where lowdown was found (HvdManual.cmake)
#   share/{bash-completion,zsh,fish}/                  completions of horovodrun
#   share/horovodrun/schemas/                          of its JSON outputs
#   include/hvd/, lib/cmake/hvd/                       find_package(hvd) gives hvd::hvd
# install(TARGETS) stands beside each target; here is what belongs to none.
include(CMakePackageConfigHelpers)

set(HVD_PYTHON_DIR "${CMAKE_INSTALL_LIBDIR}/python${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR}/site-packages"
  CACHE STRING "Where the Python package is installed, below the prefix")

install(DIRECTORY DESTINATION "${CMAKE_INSTALL_LIBDIR}/horovod")
install(CODE "
  set(source \"${PROJECT_SOURCE_DIR}/runtime/python/horovod\")
  set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${HVD_PYTHON_DIR}/horovod\")
  set(list \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/cmake/hvd/python-files.txt\")
  include(\"${CMAKE_CURRENT_LIST_DIR}/RemoveStalePython.cmake\")")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/runtime/python/horovod" DESTINATION "${HVD_PYTHON_DIR}"
  FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE PATTERN ".*" EXCLUDE)

set(HVD_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/hvd")
if(TARGET hvd)
  install(EXPORT hvdTargets FILE hvdTargets.cmake NAMESPACE hvd:: DESTINATION "${HVD_CMAKE_DIR}")
endif()
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/hvdConfig.cmake.in" "${PROJECT_BINARY_DIR}/hvdConfig.cmake"
  INSTALL_DESTINATION "${HVD_CMAKE_DIR}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/hvdConfigVersion.cmake"
  COMPATIBILITY SameMajorVersion)
install(FILES "${PROJECT_BINARY_DIR}/hvdConfig.cmake" "${PROJECT_BINARY_DIR}/hvdConfigVersion.cmake"
  DESTINATION "${HVD_CMAKE_DIR}")

# The installed files, without tests and benchmarks: `cmake --build build/release --target product`.
add_custom_target(product)
foreach(target horovodrun hvd-agent hvd-gpu-probe hvd-bench hvd hvd_tf hvd_mpi_openmpi hvd_mpi_mpich)
  if(TARGET ${target})
    add_dependencies(product ${target})
  endif()
endforeach()
