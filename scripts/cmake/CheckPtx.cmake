# Makes ${ptx} of ${ptx}.new: with the version of PTX lowered from what nvcc writes, its own, to the
# lowest that has ${capability}. Fails where one of the ${assemblers} does not take it. The first of
# them, the toolkit's own, makes ${ptx}.cubin.
file(READ "${ptx}.new" text)
string(REGEX REPLACE "\n\\.version [0-9.]+\n" "\n.version ${version}\n" text "${text}")
string(REGEX REPLACE "\n//[^\n]*" "" text "${text}")
string(FIND "${text}" "\n.version ${version}\n" place)
if(place EQUAL -1)
  message(FATAL_ERROR "${ptx}.new has no line with .version")
endif()
file(WRITE "${ptx}" "${text}")
string(REPLACE "|" ";" assemblers "${assemblers}")
set(output_file "${ptx}.cubin")
foreach(assembler IN LISTS assemblers)
  if(assembler AND NOT assembler MATCHES "NOTFOUND$")
    execute_process(COMMAND "${assembler}" --gpu-name=sm_${capability} --output-file "${output_file}" "${ptx}"
      RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT status EQUAL 0)
      file(REMOVE "${ptx}")
      message(FATAL_ERROR "${assembler} refuses PTX ${version} for compute capability ${capability}: ${output}")
    endif()
    set(output_file "${ptx}.checked")
  endif()
endforeach()
