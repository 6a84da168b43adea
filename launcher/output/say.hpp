// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace hvd::launch {

/// Tells people a sentence of horovodrun's own.
using Say = std::function<void(const std::string& sentence)>;

/// On standard error, with the program's name in front. Nothing can be done where that fails.
void say_on_stderr(const std::string& sentence);

/// The width of the terminal that standard output is; 80 where it is none.
[[nodiscard]] std::size_t terminal_columns();

/// Writes `text` to standard output. Returns the exit code: 0, or that of a closed output.
[[nodiscard]] int print_page(const std::string& text);

/// Opens the standard descriptors that the caller had closed: the first file that is opened would
/// take their number and be written to as if it were the console. Called before any is opened.
void open_missing_descriptors();

}  // namespace hvd::launch
