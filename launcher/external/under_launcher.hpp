// SPDX-License-Identifier: Apache-2.0
//
// Where another launcher starts the ranks and horovodrun only stands in front of their program.
#pragma once

#include "launcher/model/requests.hpp"

namespace hvd::launch {

// Both execute a program in the place of this process and return only when that has failed: the
// exit code, after a sentence on standard error.
[[nodiscard]] int run_task(const RunTask& request);
[[nodiscard]] int run_line(const RunLine& request);

}  // namespace hvd::launch
