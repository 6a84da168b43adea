# Debian's own package file gives the shared library only. This links the static one, so that a
# wheel needs nothing from the system.
find_path(YamlCpp_INCLUDE_DIR yaml-cpp/yaml.h)
find_library(YamlCpp_LIBRARY NAMES libyaml-cpp.a)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(YamlCpp REQUIRED_VARS YamlCpp_LIBRARY YamlCpp_INCLUDE_DIR)
if(YamlCpp_FOUND AND NOT TARGET yaml-cpp)
  add_library(yaml-cpp STATIC IMPORTED)
  set_target_properties(yaml-cpp PROPERTIES
    IMPORTED_LOCATION "${YamlCpp_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${YamlCpp_INCLUDE_DIR}")
endif()
mark_as_advanced(YamlCpp_INCLUDE_DIR YamlCpp_LIBRARY)
