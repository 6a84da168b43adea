// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/search_path.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <string>

#include <unistd.h>

namespace hvd::launch {

bool has_program(const Environment& environment, std::string_view name) {
    const auto path = find(environment, "PATH").value_or("");
    return std::ranges::any_of(split(path, ':'), [name](std::string_view folder) {
        return ::access(std::string(folder).append("/").append(name).c_str(), X_OK) == 0;
    });
}

}  // namespace hvd::launch
