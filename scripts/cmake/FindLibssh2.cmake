# Debian's libssh2 has a pkg-config file only. Links the static archive: the dynamic one costs a
# millisecond at every start of horovodrun, and a wheel must not need it.
find_path(Libssh2_INCLUDE_DIR libssh2.h)
find_library(Libssh2_LIBRARY NAMES libssh2.a)
find_library(Libssh2_CRYPTO_LIBRARY NAMES libcrypto.a)
find_library(Libssh2_Z_LIBRARY NAMES libz.a)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libssh2 REQUIRED_VARS
  Libssh2_LIBRARY Libssh2_INCLUDE_DIR Libssh2_CRYPTO_LIBRARY Libssh2_Z_LIBRARY)
if(Libssh2_FOUND AND NOT TARGET Libssh2::Libssh2)
  add_library(Libssh2::Libssh2 STATIC IMPORTED)
  set_target_properties(Libssh2::Libssh2 PROPERTIES
    IMPORTED_LOCATION "${Libssh2_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Libssh2_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${Libssh2_CRYPTO_LIBRARY};${Libssh2_Z_LIBRARY}")
endif()
mark_as_advanced(Libssh2_INCLUDE_DIR Libssh2_LIBRARY Libssh2_CRYPTO_LIBRARY Libssh2_Z_LIBRARY)
