// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/file_pattern.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fnmatch.h>

namespace hvd::launch::ssh {
namespace {

bool has_pattern(std::string_view text) {
    return text.find_first_of("*?[") != std::string_view::npos;
}

/// Adds the matching names in `folder`. A folder that cannot be read has none.
void add_matches(const std::string& folder,
                 const std::string& part,
                 std::vector<std::string>& found) {
    std::error_code unknown;
    const auto shown = folder.empty() ? std::string("/") : folder;
    for (auto entry = std::filesystem::directory_iterator(shown, unknown);
         !unknown && entry != std::filesystem::directory_iterator(); entry.increment(unknown)) {
        const auto name = entry->path().filename().string();
        if (::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0) {
            found.push_back(folder);
            found.back() += '/';
            found.back() += name;
        }
    }
}

}  // namespace

std::vector<std::string> expand_file_pattern(std::string_view pattern) {
    if (!has_pattern(pattern)) {
        return {std::string(pattern)};
    }
    std::vector<std::string> paths{""};
    for (const auto part : split(pattern, '/')) {
        if (part.empty()) {
            continue;
        }
        std::vector<std::string> longer;
        for (const auto& path : paths) {
            if (has_pattern(part)) {
                add_matches(path, std::string(part), longer);
            } else {
                longer.push_back(path + "/" + std::string(part));
            }
        }
        paths = std::move(longer);
    }
    std::erase_if(paths, [](const std::string& path) {
        std::error_code unknown;
        return !std::filesystem::exists(path, unknown);
    });
    std::ranges::sort(paths);
    return paths;
}

}  // namespace hvd::launch::ssh
