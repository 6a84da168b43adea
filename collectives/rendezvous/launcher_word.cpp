// SPDX-License-Identifier: Apache-2.0
#include "collectives/rendezvous/launcher_word.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <vector>

namespace hvd::coll {

Result<std::string> named_launcher(const Environment& environment) {
    const auto text = find(environment, "HOROVOD_LAUNCHER").value_or("");
    std::string word(trim(text));
    if (!word.empty() && std::ranges::find(kLauncherWords, word) == kLauncherWords.end()) {
        const std::vector<std::string> launchers(kLauncherWords.begin(), kLauncherWords.end() - 1);
        return Error{Errc::invalid_argument, "HOROVOD_LAUNCHER='" + text + "': expected " +
                                                 join(launchers, ", ") + " or " +
                                                 std::string(kLauncherWords.back())};
    }
    return word;
}

}  // namespace hvd::coll
