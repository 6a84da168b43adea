// SPDX-License-Identifier: Apache-2.0
#include "collectives/launch_contract/launcher_choice.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <vector>

namespace hvd::coll {

Result<std::string> chosen_launcher(const Environment& environment) {
    const auto text = find(environment, kEnvLauncher).value_or("");
    std::string word(trim(text));
    if (!word.empty() && std::ranges::find(kLauncherNames, word) == kLauncherNames.end()) {
        const std::vector<std::string> launchers(kLauncherNames.begin(), kLauncherNames.end() - 1);
        return Error{Errc::invalid_argument, "HOROVOD_LAUNCHER='" + text + "': expected " +
                                                 join(launchers, ", ") + " or " +
                                                 std::string(kLauncherNames.back())};
    }
    return word;
}

Result<int> read_number(const Environment& environment, std::string_view name, int least) {
    const auto text = find(environment, name);
    const auto number = text ? parse_number<int>(*text) : std::nullopt;
    if (!number || *number < least) {
        return Error{Errc::invalid_argument, std::string(name) +
                                                 (text ? "='" + *text + "'" : " is missing, it") +
                                                 " must be a number from " + std::to_string(least)};
    }
    return *number;
}

}  // namespace hvd::coll
