// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-bench/options.hpp"
#include "apps/hvd-bench/run.hpp"

#include <exception>
#include <iostream>
#include <variant>

namespace {

constexpr int kUsageError = 2;

int run_main(int argc, const char* const* argv) {
    const auto parsed = hvd::bench::parse_options(argc, argv);
    if (!parsed) {
        std::cerr << "hvd-bench: " << parsed.error().message << '\n';
        return kUsageError;
    }
    if (const auto* help = std::get_if<hvd::bench::Help>(&*parsed)) {
        std::cout << help->text;
        return 0;
    }
    return hvd::bench::run(std::get<hvd::bench::Options>(*parsed));
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run_main(argc, argv);
    } catch (const std::exception& exception) {
        std::cerr << "hvd-bench: " << exception.what() << '\n';
        return 1;
    }
}
