# LLVM's linker, by the name that compilers look for with -fuse-ld=lld.
find_program(Lld_EXECUTABLE ld.lld)
# Compilers look for it in places of their own.
if(Lld_EXECUTABLE)
  include(CheckLinkerFlag)
  check_linker_flag(CXX "-fuse-ld=lld;LINKER:--no-warn-symbol-ordering" Lld_WORKS)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Lld REQUIRED_VARS Lld_EXECUTABLE Lld_WORKS)
mark_as_advanced(Lld_EXECUTABLE)
