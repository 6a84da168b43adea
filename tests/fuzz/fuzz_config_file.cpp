// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/config_file.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

/// Whatever a config file holds, reading it ends in values or in an error that names the file.
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto values = hvd::launch::parse_config(text, "c.yaml");
    if (!values && !values.error().message.starts_with("c.yaml:")) {
        __builtin_trap();
    }
    return 0;
}
