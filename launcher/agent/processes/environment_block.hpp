// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/env.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch::agent {

/// What `environment` says and, if `inherits`, whatever else this process was given.
[[nodiscard]] Environment with_own_environment(Environment environment, bool inherits);

/// Strings as execve wants them.
class EnvironmentBlock final {
public:
    explicit EnvironmentBlock(const Environment& environment);

    /// The pointers of this block, with `changes` in the place of variables of the same name. Valid
    /// while both live.
    [[nodiscard]] std::vector<char*> with(EnvironmentBlock& changes);

    [[nodiscard]] std::optional<std::string> find(std::string_view name) const;

private:
    struct Entry {
        std::string text;  // NAME=value
        std::size_t name_size = 0;
        [[nodiscard]] std::string_view name() const { return {text.data(), name_size}; }
    };
    std::vector<Entry> entries_;  // sorted by name
};

}  // namespace hvd::launch::agent
