// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace hvd::test {

/// PID, which namespaces, user and group, directory, command: runs the command there. Signals to
/// this process reach the command, whose end becomes its own; when it is killed, so is the command.
int run_inside(std::span<char*> arguments);

}  // namespace hvd::test
