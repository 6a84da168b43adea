// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/env.hpp"

#include <cstdlib>
#include <string_view>

#include <unistd.h>

namespace hvd {

Environment current_environment() {
    Environment environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const auto equals = text.find('=');
        if (equals != std::string_view::npos && equals != 0) {
            environment.emplace(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    return environment;
}

std::optional<std::string> read_env(const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): the one reader
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

bool set_env_default(const char* name, const std::string& value) {
    if (read_env(name)) {
        return false;
    }
    // NOLINTNEXTLINE(concurrency-mt-unsafe): see the header
    return ::setenv(name, value.c_str(), 0) == 0;
}

void unset_env(const std::string& name) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): see the header
    (void)::unsetenv(name.c_str());
}

std::optional<std::string> find(const Environment& environment, std::string_view name) {
    const auto entry = environment.find(name);
    return entry == environment.end() ? std::nullopt : std::optional(entry->second);
}

}  // namespace hvd
