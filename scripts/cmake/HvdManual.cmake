# The user manual as a man page: share/man/man1/horovodrun.1 from apps/horovodrun/README.md, without its title.
# lowdown is a small C program with no dependencies. Without it the page is left out.
find_program(HVD_LOWDOWN lowdown)
mark_as_advanced(HVD_LOWDOWN)
if(HVD_LOWDOWN)
  set(source "${PROJECT_SOURCE_DIR}/apps/horovodrun/README.md")
  set(page "${PROJECT_BINARY_DIR}/man/horovodrun.1")
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/man")
  add_custom_command(OUTPUT "${page}" DEPENDS "${source}" VERBATIM
    COMMAND sh -c "sed 1d \"$1\" | \"$0\" -s -tman --out-no-smarty -M title=HOROVODRUN -M section=1 -M shiftheadinglevelby=-1 -o \"$2\""
            "${HVD_LOWDOWN}" "${source}" "${page}")
  add_custom_target(horovodrun_man ALL DEPENDS "${page}")
  add_dependencies(product horovodrun_man)
  install(FILES "${page}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
else()
  message(STATUS "The man page of horovodrun is left out: lowdown was not found (scripts/setup_debian_12.sh installs it)")
endif()
