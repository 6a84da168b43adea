// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/folder.hpp"

#include <algorithm>
#include <system_error>

namespace hvd::launch::agent {

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder) {
    std::error_code over;
    std::vector<std::filesystem::path> entries;
    for (std::filesystem::directory_iterator entry(folder, over), end; !over && entry != end;
         entry.increment(over)) {
        entries.push_back(entry->path());
    }
    std::ranges::sort(entries);
    return entries;
}

}  // namespace hvd::launch::agent
