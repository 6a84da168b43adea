// SPDX-License-Identifier: Apache-2.0
//
// The only reader and writer of the process environment. Everything else gets values.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace hvd {

/// Name → value. Ordered, so that whatever is made from it is the same every time.
using Environment = std::map<std::string, std::string, std::less<>>;

/// A copy of this process's environment. Entries without '=' are left out.
[[nodiscard]] Environment current_environment();

[[nodiscard]] std::optional<std::string> read_env(const char* name);

/// Sets the variable for this process and its children where it is not set yet; true if it was
/// not. Not while another thread may read the environment.
bool set_env_default(const char* name, const std::string& value);

/// Forgets it, for this process and its children. Not while another thread may read the
/// environment.
void unset_env(const std::string& name);

/// The value, or nothing where it is unset.
[[nodiscard]] std::optional<std::string> find(const Environment& environment,
                                              std::string_view name);

}  // namespace hvd
