// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace hvd::launch {

/// Tells people a sentence of horovodrun's own.
using Say = std::function<void(const std::string& sentence)>;

/// On standard error, with the program's name in front. Nothing can be done where that fails.
void say_on_stderr(const std::string& sentence);

}  // namespace hvd::launch
