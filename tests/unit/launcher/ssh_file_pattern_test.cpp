// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/file_pattern.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using hvd::launch::ssh::expand_file_pattern;

TEST_CASE("a pattern may stand in any part of a path") {
    const hvd::test::TempDir folder;
    const auto top = folder.path().string();
    for (const auto* name : {"a/x.conf", "b/x.conf", "b/y.conf", "b/z.txt", "c/.x.conf", "c/x"}) {
        std::filesystem::create_directories((folder.path() / name).parent_path());
        std::ofstream(folder.path() / name) << "x";
    }
    const auto expand = [&](const std::string& pattern) {
        auto found = expand_file_pattern(top + "/" + pattern);
        for (auto& path : found) {
            path.erase(0, top.size() + 1);
        }
        return found;
    };
    using Names = std::vector<std::string>;

    CHECK(expand("*/x.conf") == Names{"a/x.conf", "b/x.conf"});
    CHECK(expand("?/*.conf") == Names{"a/x.conf", "b/x.conf", "b/y.conf"});
    CHECK(expand("[bc]/[!z]*") == Names{"b/x.conf", "b/y.conf", "c/x"});
    CHECK(expand("c/.*.conf") == Names{"c/.x.conf"});
    CHECK(expand("*.conf").empty());
    CHECK(expand("nowhere/*").empty());
    CHECK(expand("b/z.txt/*").empty());
}

TEST_CASE("a path without a pattern is taken as it is, there or not") {
    CHECK(expand_file_pattern("/nowhere/config") == std::vector<std::string>{"/nowhere/config"});
}
