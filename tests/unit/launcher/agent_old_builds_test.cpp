// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/build_cache.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <fstream>
#include <set>
#include <string>

namespace hvd::launch::agent {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

/// A build with its program that was used so long ago.
fs::path put(const fs::path& builds, const std::string& name, std::chrono::hours ago) {
    auto folder = builds / name;
    fs::create_directories(folder);
    std::ofstream(folder / "hvd-agent") << "x";
    fs::last_write_time(folder, fs::file_time_type::clock::now() - ago);
    return folder;
}

std::string build(char digit) {
    return "0.29.0+893d19238661-" + std::string(16, digit);
}

std::set<std::string> names_in(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
        names.insert(entry.path().filename().string());
    }
    return names;
}

TEST_CASE("the names of builds are known, and no others") {
    CHECK(is_build_folder("0.29.0+893d19238661-b27c77709a98fe3d"));
    CHECK(is_build_folder("1-0000000000000000"));
    for (const auto* other :
         {"", "hvd-agent", "-b27c77709a98fe3d", "0.29.0-b27c77709a98fe3", "0.29.0-b27c77709a98feXd",
          "0.29.0+a b-b27c77709a98fe3d", "data-b27c77709a98fe3d", "0.29.0+893d19238661"}) {
        CAPTURE(other);
        CHECK_FALSE(is_build_folder(other));
    }
}

TEST_CASE("only an agent that the bootstrap installed has a folder of builds") {
    const auto folder = "/home/me/.cache/horovodrun/" + build('0');

    CHECK(build_folder(folder + "/hvd-agent") == folder);
    CHECK(build_folder("/tmp/horovodrun-1000/" + build('0') + "/hvd-agent") != "");
    CHECK(build_folder(folder + "/horovodrun").empty());
    CHECK(build_folder("/data/" + build('0') + "/hvd-agent").empty());
    CHECK(build_folder("/usr/libexec/hvd-agent").empty());
    CHECK(build_folder("/memfd:hvd-agent (deleted)").empty());
}

TEST_CASE("the newest builds stay, and those that were used lately") {
    const test::TempDir root;
    const auto builds = root.path() / "horovodrun";
    const auto ours = put(builds, build('0'), 1000h);
    put(builds, build('1'), 100h);
    put(builds, build('2'), 200h);
    put(builds, build('3'), 300h);
    put(builds, build('4'), 400h);
    put(builds, build('5'), 500h);

    mark_in_use(ours);
    remove_old_builds(ours);
    CHECK(names_in(builds) == std::set{build('0'), build('1'), build('2'), build('3')});

    for (const char digit : {'6', '7', '8', '9'}) {
        put(builds, build(digit), 1h);
    }
    remove_old_builds(ours);
    CHECK(names_in(builds) == std::set{build('0'), build('6'), build('7'), build('8'), build('9')});
}

TEST_CASE("what the bootstrap did not create stays, and so does what a link leads to") {
    const test::TempDir root;
    const auto builds = root.path() / "horovodrun";
    const auto ours = put(builds, build('0'), 1h);
    for (const char digit : {'1', '2', '3', '4', '5'}) {
        put(builds, build(digit), 100h);
    }
    const auto mine = put(builds, "mine", 1000h);
    const auto with_more = put(builds, build('a'), 1000h);
    std::ofstream(with_more / "notes") << "keep me";
    fs::last_write_time(with_more, fs::file_time_type::clock::now() - 1000h);
    const auto elsewhere = put(root.path(), build('b'), 1000h);
    fs::create_directory_symlink(elsewhere, builds / build('c'));

    remove_old_builds(ours);

    CHECK(fs::exists(mine / "hvd-agent"));
    CHECK(fs::exists(with_more / "notes"));
    CHECK(fs::exists(elsewhere / "hvd-agent"));
    CHECK(fs::is_symlink(builds / build('c')));
    CHECK(names_in(builds).size() == 1 + 3 + 3);
    remove_old_builds({});
}

}  // namespace
}  // namespace hvd::launch::agent
