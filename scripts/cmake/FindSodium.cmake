# Debian's libsodium has a pkg-config file only. Links the static archive: neither libhorovod nor a
# static program may need it at run time.
find_path(Sodium_INCLUDE_DIR sodium.h)
find_library(Sodium_LIBRARY NAMES libsodium.a)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Sodium REQUIRED_VARS Sodium_LIBRARY Sodium_INCLUDE_DIR)
if(Sodium_FOUND AND NOT TARGET Sodium::Sodium)
  add_library(Sodium::Sodium STATIC IMPORTED)
  set_target_properties(Sodium::Sodium PROPERTIES
    IMPORTED_LOCATION "${Sodium_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Sodium_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS SODIUM_STATIC)
endif()
mark_as_advanced(Sodium_INCLUDE_DIR Sodium_LIBRARY)
