// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd::test {

void bring_up(const std::string& interface);

/// Gives an interface an address such as 10.0.0.1/8 or fd00::1/64 and brings it up.
void add_address(const std::string& interface, const std::string& address);

/// Returns when somebody here listens on that TCP port; throws after 20 s.
void wait_until_listening(const std::string& port);

}  // namespace hvd::test
