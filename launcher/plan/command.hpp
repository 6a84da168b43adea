// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// A word, and words with blanks between them, as one could type them into a shell.
[[nodiscard]] std::string quote_word(const std::string& word);
[[nodiscard]] std::string quote_words(const std::vector<std::string>& words);

/// The same with variables set for that command: "env A=B mpirun -np 4".
[[nodiscard]] std::string quote_line(const Environment& variables,
                                     const std::vector<std::string>& words);

/// Why a command could not be executed and what to write instead, in a sentence: "'python' was not
/// found in PATH; 'python3' is there, write that". `error_number` is execve's errno, `environment`
/// the rank's, `directory` its working directory. Looks at the file system of this machine.
[[nodiscard]] std::string explain_missing_command(std::string_view command,
                                                  int error_number,
                                                  const Environment& environment,
                                                  std::string_view directory);

}  // namespace hvd::launch
