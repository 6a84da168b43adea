// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace hvd::test {

/// Says why this case cannot run here. The program then exits with 77 if nothing else failed, which
/// ctest shows as skipped. Return from the case afterwards.
void skip(std::string_view reason);

}  // namespace hvd::test
