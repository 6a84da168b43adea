// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/exec_failure.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

using hvd::launch::agent::explain_exec_failure;
using hvd::test::TempDir;
namespace fs = std::filesystem;

namespace {

const std::string kElsewhere = "; install it there, or write a path that every host has";

void write_file(const fs::path& path, const char* text, bool is_executable) {
    std::ofstream(path) << text;
    if (is_executable) {
        fs::permissions(path, fs::perms::owner_all);
    }
}

}  // namespace

TEST_CASE("a missing python names python3 where that exists") {
    const TempDir folder;
    const std::string path = "/nowhere:" + folder.path().string();

    CHECK(explain_exec_failure("python", ENOENT, path, "/") ==
          "'python' was not found in PATH (" + path + ")" + kElsewhere);

    write_file(folder.path() / "python3", "", true);
    CHECK(explain_exec_failure("python", ENOENT, path, "/") ==
          "'python' was not found in PATH; 'python3' is there, write that");
    CHECK(explain_exec_failure("pythom", ENOENT, path, "/") ==
          "'pythom' was not found in PATH (" + path + ")" + kElsewhere);
}

TEST_CASE("a program of the working directory needs ./") {
    const TempDir folder;
    write_file(folder.path() / "train", "", true);

    CHECK(explain_exec_failure("train", ENOENT, "/nowhere", folder.path().string()) ==
          "'train' was not found in PATH, but it is in " + folder.path().string() +
              "; write ./train");
}

TEST_CASE("without PATH the remedy is to pass it on") {
    CHECK(explain_exec_failure("train", ENOENT, std::nullopt, "/") ==
          "'train' was not found, because PATH is not set for the ranks; pass it on with "
          "--env-pass PATH");
}

TEST_CASE("a whole line in one word is to be written in words") {
    const auto* line = GENERATE("python s.py", "python /nowhere/s.py -x");
    const std::string text(line);

    CHECK(explain_exec_failure(text, ENOENT, "/nowhere", "/") ==
          "there is no program '" + text + "'; leave the quotes out: " + text +
              ", or let a shell read the line: sh -c '" + text + "'");
}

TEST_CASE("a variable in front of the command is set by a flag") {
    const std::string path = "/nowhere";

    CHECK(explain_exec_failure("FOO=/a b", ENOENT, path, "/") ==
          "there is no program 'FOO=/a b'; set a variable of the ranks with --env 'FOO=/a b' "
          "before the command");
    CHECK(explain_exec_failure("a.b=1", ENOENT, path, "/") ==
          "'a.b=1' was not found in PATH (/nowhere)" + kElsewhere);
}

TEST_CASE("a script from Windows is told from one whose shell is missing") {
    const TempDir folder;
    const auto here = folder.path().string();
    write_file(folder.path() / "crlf.sh", "#!/bin/sh\r\necho\r\n", true);
    write_file(folder.path() / "both.sh", "#!/nowhere/sh -e\r\n", true);

    CHECK(explain_exec_failure("./crlf.sh", ENOENT, std::nullopt, here) ==
          "'./crlf.sh' is there, but its lines end in CR LF, as on Windows, and no program is "
          "called '/bin/sh\\r'; write sed -i 's/\\r$//' ./crlf.sh");
    CHECK(explain_exec_failure("./both.sh", ENOENT, std::nullopt, here) ==
          "'./both.sh' is there, but the program in its first line, '/nowhere/sh', is not");
}

TEST_CASE("a file that is there but cannot be executed is told from one that is not") {
    const TempDir folder;
    const auto here = folder.path().string();
    write_file(folder.path() / "script", "#! /nowhere/sh -e\n", true);
    write_file(folder.path() / "train.py", "", false);
    write_file(folder.path() / "text", "hello", true);
    write_file(folder.path() / "denied", "hello", false);
    write_file(folder.path() / "nested", "#!./denied\n", true);
    fs::create_directory(folder.path() / "folder");

    CHECK(explain_exec_failure("./none", ENOENT, std::nullopt, here) ==
          "'./none' was not found" + kElsewhere);
    CHECK(explain_exec_failure("./script", ENOENT, std::nullopt, here) ==
          "'./script' is there, but the program in its first line, '/nowhere/sh', is not");
    CHECK(explain_exec_failure("./text", ENOENT, std::nullopt, here) ==
          "'./text' is there, but the loader it needs is not");
    CHECK(explain_exec_failure("./train.py", EACCES, std::nullopt, here) ==
          "'./train.py' may not be executed; write python3 ./train.py, or chmod +x ./train.py");
    CHECK(explain_exec_failure("./denied", EACCES, std::nullopt, here) ==
          "'./denied' may not be executed; allow it with chmod +x ./denied");
    CHECK(
        explain_exec_failure("./nested", EACCES, std::nullopt, here) ==
        "'./nested' is there, but the program in its first line, './denied', may not be executed");
    CHECK(explain_exec_failure("./text", EACCES, std::nullopt, here) ==
          "'./text': Permission denied");
    CHECK(explain_exec_failure("/dev/null", EACCES, std::nullopt, here) ==
          "'/dev/null': Permission denied");
    CHECK(explain_exec_failure("./folder", EACCES, std::nullopt, here) ==
          "'./folder' is a directory");
    CHECK(explain_exec_failure("./text", ENOEXEC, std::nullopt, here) ==
          "'./text' is no program that this machine can run; a script needs a first line such as "
          "#!/bin/sh");
    CHECK(explain_exec_failure("./text", E2BIG, std::nullopt, here) ==
          "'./text': Argument list too long");
    CHECK(explain_exec_failure("", ENOENT, std::nullopt, here) == "the command is an empty word");
}

TEST_CASE("a symbolic link that leads nowhere is named with where it points") {
    const TempDir folder;
    const auto link = folder.path() / "train";
    fs::create_symlink("/nowhere/train", link);
    const std::string path = folder.path().string();

    CHECK(explain_exec_failure("./train", ENOENT, path, folder.path().string()) ==
          "'./train' is a symbolic link to '/nowhere/train', which is not there");
    CHECK(explain_exec_failure("train", ENOENT, path, "/") ==
          "'" + link.string() + "' is a symbolic link to '/nowhere/train', which is not there");
}

TEST_CASE("a file that PATH leads to and that cannot be executed is named in full") {
    const TempDir folder;
    const auto path = "/nowhere:" + folder.path().string();
    write_file(folder.path() / "script", "#!/nowhere/sh\n", true);
    write_file(folder.path() / "denied", "", false);
    fs::create_directory(folder.path() / "folder");

    const auto named = [&](const char* name) {
        return "'" + (folder.path() / name).string() + "'";
    };
    CHECK(explain_exec_failure("script", ENOENT, path, "/") ==
          named("script") + " is there, but the program in its first line, '/nowhere/sh', is not");
    CHECK(explain_exec_failure("denied", EACCES, path, "/") ==
          named("denied") + " may not be executed; allow it with chmod +x " +
              (folder.path() / "denied").string());
    CHECK(explain_exec_failure("folder", EACCES, path, "/") == named("folder") + " is a directory");
}
