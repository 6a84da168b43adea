# LLVM's linker, by the name that compilers look for with -fuse-ld=lld.
find_program(Lld_EXECUTABLE ld.lld)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Lld REQUIRED_VARS Lld_EXECUTABLE)
mark_as_advanced(Lld_EXECUTABLE)
