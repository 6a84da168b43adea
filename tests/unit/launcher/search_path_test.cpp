// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/search_path.hpp"

#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

using hvd::Environment;
using hvd::launch::has_program;
using hvd::test::TempDir;
namespace fs = std::filesystem;

TEST_CASE("a folder in PATH is no program") {
    const TempDir folder;
    const auto jsrun = folder.path() / "jsrun";
    fs::create_directory(jsrun);
    const Environment path{{"PATH", folder.path().string()}};

    CHECK_FALSE(has_program(path, "jsrun"));
    std::ofstream(jsrun / "jsrun") << "";
    fs::permissions(jsrun / "jsrun", fs::perms::owner_all);
    CHECK(has_program({{"PATH", jsrun.string()}}, "jsrun"));
}
