// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/command.hpp"

#include "launcher/hosts/search_path.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

using hvd::Environment;
using hvd::launch::explain_missing_command;
using hvd::test::TempDir;
namespace fs = std::filesystem;

namespace {

void write_file(const fs::path& path, const char* text, bool is_executable) {
    std::ofstream(path) << text;
    if (is_executable) {
        fs::permissions(path, fs::perms::owner_all);
    }
}

}  // namespace

TEST_CASE("a missing python names python3 where that exists") {
    const TempDir folder;
    const Environment path{{"PATH", "/nowhere:" + folder.path().string()}};

    CHECK(explain_missing_command("python", ENOENT, path, "/") ==
          "'python' was not found in PATH (" + path.at("PATH") + ")");

    write_file(folder.path() / "python3", "", true);
    CHECK(explain_missing_command("python", ENOENT, path, "/") ==
          "'python' was not found in PATH; 'python3' is there, write that");
    CHECK(explain_missing_command("pythom", ENOENT, path, "/") ==
          "'pythom' was not found in PATH (" + path.at("PATH") + ")");
}

TEST_CASE("a program of the working directory needs ./") {
    const TempDir folder;
    write_file(folder.path() / "train", "", true);

    CHECK(
        explain_missing_command("train", ENOENT, {{"PATH", "/nowhere"}}, folder.path().string()) ==
        "'train' was not found in PATH, but it is in " + folder.path().string() +
            "; write ./train");
}

TEST_CASE("without PATH the remedy is to pass it on") {
    CHECK(explain_missing_command("train", ENOENT, {}, "/") ==
          "'train' was not found, because PATH is not set for the ranks; pass it on with "
          "--env-pass PATH");
}

TEST_CASE("a whole line in one word is to be written in words") {
    const auto* line = GENERATE("python s.py", "python /nowhere/s.py -x");
    const std::string text(line);

    CHECK(explain_missing_command(text, ENOENT, {{"PATH", "/nowhere"}}, "/") ==
          "there is no program '" + text + "'; leave the quotes out: " + text +
              ", or let a shell read the line: sh -c '" + text + "'");
}

TEST_CASE("a variable in front of the command is set by a flag") {
    const Environment path{{"PATH", "/nowhere"}};

    CHECK(explain_missing_command("FOO=/a b", ENOENT, path, "/") ==
          "there is no program 'FOO=/a b'; set a variable of the ranks with --env 'FOO=/a b' "
          "before the command");
    CHECK(explain_missing_command("a.b=1", ENOENT, path, "/") ==
          "'a.b=1' was not found in PATH (/nowhere)");
}

TEST_CASE("a script from Windows is told from one whose shell is missing") {
    const TempDir folder;
    const auto here = folder.path().string();
    write_file(folder.path() / "crlf.sh", "#!/bin/sh\r\necho\r\n", true);
    write_file(folder.path() / "both.sh", "#!/nowhere/sh -e\r\n", true);

    CHECK(explain_missing_command("./crlf.sh", ENOENT, {}, here) ==
          "'./crlf.sh' is there, but its lines end in CR LF, as on Windows, and no program is "
          "called '/bin/sh\\r'; write sed -i 's/\\r$//' ./crlf.sh");
    CHECK(explain_missing_command("./both.sh", ENOENT, {}, here) ==
          "'./both.sh' is there, but the program in its first line, '/nowhere/sh', is not");
}

TEST_CASE("a file that is there but cannot be executed is told from one that is not") {
    const TempDir folder;
    const auto here = folder.path().string();
    write_file(folder.path() / "script", "#! /nowhere/sh -e\n", true);
    write_file(folder.path() / "train.py", "", false);
    write_file(folder.path() / "text", "hello", true);
    fs::create_directory(folder.path() / "folder");

    CHECK(explain_missing_command("./none", ENOENT, {}, here) ==
          "'./none': No such file or directory");
    CHECK(explain_missing_command("./script", ENOENT, {}, here) ==
          "'./script' is there, but the program in its first line, '/nowhere/sh', is not");
    CHECK(explain_missing_command("./text", ENOENT, {}, here) ==
          "'./text' is there, but the loader it needs is not");
    CHECK(explain_missing_command("./train.py", EACCES, {}, here) ==
          "'./train.py' may not be executed; write python3 ./train.py, or chmod +x ./train.py");
    CHECK(explain_missing_command("./text", EACCES, {}, here) ==
          "'./text' may not be executed; allow it with chmod +x ./text");
    CHECK(explain_missing_command("./folder", EACCES, {}, here) == "'./folder' is a directory");
    CHECK(explain_missing_command("./text", ENOEXEC, {}, here) ==
          "'./text' is no program that this machine can run; a script needs a first line such as "
          "#!/bin/sh");
    CHECK(explain_missing_command("./text", E2BIG, {}, here) == "'./text': Argument list too long");
    CHECK(explain_missing_command("", ENOENT, {}, here) == "the command is an empty word");
}

TEST_CASE("a symbolic link that leads nowhere is named with where it points") {
    const TempDir folder;
    const auto link = folder.path() / "train";
    fs::create_symlink("/nowhere/train", link);
    const Environment path{{"PATH", folder.path().string()}};

    CHECK(explain_missing_command("./train", ENOENT, path, folder.path().string()) ==
          "'./train' is a symbolic link to '/nowhere/train', which is not there");
    CHECK(explain_missing_command("train", ENOENT, path, "/") ==
          "'train' was not found in PATH: " + link.string() +
              " is a symbolic link to '/nowhere/train', which is not there");
}

TEST_CASE("a folder in PATH is no program") {
    const TempDir folder;
    fs::create_directory(folder.path() / "jsrun");
    const Environment path{{"PATH", folder.path().string()}};

    CHECK_FALSE(hvd::launch::has_program(path, "jsrun"));
    write_file(folder.path() / "jsrun" / "jsrun", "", true);
    CHECK(hvd::launch::has_program({{"PATH", (folder.path() / "jsrun").string()}}, "jsrun"));
}
