// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_RUNNER
#include "tests/support/test_main.hpp"

#include <catch2/catch.hpp>

#include <iostream>

namespace {

constexpr int kSkipped = 77;
bool skipped = false;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): test program

}  // namespace

void hvd::test::skip(std::string_view reason) {
    skipped = true;
    std::cout << "SKIPPED: " << reason << '\n';
    SUCCEED("skipped");
}

int main(int argc, char** argv) {
    // Catch2's own main returns the number of failures, which ctest could take for a skip.
    if (Catch::Session().run(argc, argv) != 0) {
        return 1;
    }
    return skipped ? kSkipped : 0;
}
