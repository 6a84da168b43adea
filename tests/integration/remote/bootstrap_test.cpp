// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/build_id.hpp"
#include "tests/integration/remote/link.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/test_main.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace hvd;  // NOLINT(google-build-using-namespace): a test of this namespace
using Catch::Contains;
using hvd::test::link_through;

namespace {

namespace fs = std::filesystem;

/// Something to be a --remote-shell: called with host and line, as ssh is. `before` runs on "the
/// other machine", whose home is below the folder.
std::string make_host(const test::TempDir& folder,
                      std::string_view before = "",
                      std::string_view shell = "sh") {
    fs::create_directories(folder.path() / "home");
    const auto script = folder.write(
        "remote.sh",
        "#!/bin/sh\nshift\nunset XDG_CACHE_HOME\nexport HOME=" + (folder.path() / "home").string() +
            "\n" + std::string(before) + "\nexec " + std::string(shell) + " -c \"$1\"\n");
    fs::permissions(script, fs::perms::owner_all);
    return script.string();
}

/// The folders with an agent, and what else a start left there.
std::vector<std::string> files_below(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file()) {
            names.push_back(entry.path().filename().string());
        }
    }
    return names;
}

const std::vector<std::string> kJustTheAgent{"hvd-agent"};

bool has_shell(const std::string& name) {
    const auto path = "/usr/bin/" + name;
    if (::access(path.c_str(), X_OK) == 0 || ::access(("/bin/" + name).c_str(), X_OK) == 0) {
        return true;
    }
    test::skip(name + " is not installed");
    return false;
}

/// For the line after which all places of a host are other file systems. Needs root.
bool can_mount() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread
    if (::geteuid() == 0 && std::system("unshare -m true 2>/dev/null") == 0) {
        return true;
    }
    test::skip("mounting file systems needs root");
    return false;
}

/// Lines of a host's script that see other file systems than we do, and a home in /mnt.
std::string with_mounts(std::string_view lines) {
    return "if [ -z \"$INSIDE\" ]; then INSIDE=1 exec unshare -m \"$0\" host \"$1\"; fi\n"
           "cd /; mount -t tmpfs none /mnt; HOME=/mnt\n" +
           std::string(lines);
}

}  // namespace

TEST_CASE("the line starts an agent from each login shell, and the second time from the cache") {
    const auto shell = GENERATE(values<std::string>({"sh", "bash", "csh", "fish"}));
    if (!has_shell(shell)) {
        return;
    }
    CAPTURE(shell);
    const test::TempDir folder;
    const auto host = make_host(folder, "", shell);

    const auto first = link_through(host);
    const auto second = link_through(host);

    CHECK(first.has_reported);
    CHECK(second.has_reported);
    CHECK_FALSE(first.error);
    CHECK_FALSE(second.error);
    CHECK(files_below(folder.path() / "home") == kJustTheAgent);
}

TEST_CASE("an agent that is there is not sent again") {
    const test::TempDir folder;
    const auto host = make_host(folder);
    REQUIRE(link_through(host).has_reported);

    // Nothing as large as the agent can be written any more. (ThreadSanitizer needs 512 KiB.)
    const auto again = make_host(folder, "ulimit -f 1200");

    CHECK(link_through(again).has_reported);
}

TEST_CASE("what start-up files print is skipped and told") {
    const test::TempDir folder;
    const auto host =
        make_host(folder, "echo Welcome to the cluster; echo HVDBOOT1 is no magic word");

    const auto linked =
        test::link({{.name = "there", .slots = {}}}, {.options = {.remote_shell = {host}}});

    CHECK(linked.hosts.front().has_reported);
    REQUIRE(linked.notes.size() == 1);
    CHECK_THAT(linked.notes.front(), Contains("there: ") && Contains("Welcome to the cluster"));
}

TEST_CASE("a host that prints without end is given up") {
    const test::TempDir folder;

    const auto outcome = link_through(make_host(folder, "exec yes"));

    CHECK_FALSE(outcome.has_reported);
    REQUIRE(outcome.error);
    CHECK_THAT(outcome.error->message, Contains("more than 64 KiB"));
}

TEST_CASE("hosts that share a home and start at once all run the same whole agent") {
    const test::TempDir folder;
    const auto remote_shell = make_host(folder);
    std::vector<launch::Host> hosts;
    hosts.reserve(64);
    for (int index = 0; index < 64; ++index) {
        hosts.push_back({.name = "n" + std::to_string(index), .slots = {}});
    }

    const auto linked =
        test::link(hosts, {.options = {.remote_shell = {remote_shell}}}, std::chrono::seconds(50));

    for (const auto& outcome : linked.hosts) {
        CAPTURE(outcome.error.value_or(Error{}).message);
        CHECK(outcome.has_reported);
    }
    CHECK(files_below(folder.path() / "home") == kJustTheAgent);
}

TEST_CASE("folders that others could write or exchange are not trusted") {
    if (!can_mount()) {
        return;
    }
    const test::TempDir folder;
    const auto host = make_host(
        folder,
        with_mounts("mkdir -p $HOME/.cache/horovodrun; chmod 770 $HOME/.cache/horovodrun\n"
                    "for d in /var/tmp /dev/shm; do mount -t tmpfs none $d; done\n"
                    "chmod 777 /var/tmp; chown 1:1 /var/tmp\n"
                    "ln -s /mnt /dev/shm/horovodrun-0\n"
                    "mount -t tmpfs none /tmp; mkdir -m 700 /tmp/horovodrun-0\n"
                    "chown 1:1 /tmp/horovodrun-0; printf '#!/bin/sh\\nexit 1' >/dev/shm/python3\n"
                    "chmod 755 /dev/shm/python3; PATH=/dev/shm:$PATH"));

    const auto outcome = link_through(host);

    REQUIRE(outcome.error);
    const auto& message = outcome.error->message;
    CHECK_THAT(message, Contains("/.cache/horovodrun is not a plain folder of mode 0700"));
    CHECK_THAT(message, Contains("/var/tmp: no such folder with the sticky bit"));
    CHECK_THAT(message, Contains("/dev/shm/horovodrun-0 is not a plain folder of mode 0700"));
    CHECK_THAT(message, Contains("/tmp/horovodrun-0 belongs to somebody else"));
}

TEST_CASE("an agent in a folder that others may enter is not run, though it is ours") {
    if (!can_mount()) {
        return;
    }
    const test::TempDir folder;
    REQUIRE(link_through(make_host(folder)).has_reported);
    const auto home = (folder.path() / "home").string();

    const auto outcome = link_through(make_host(
        folder,
        with_mounts("mount --bind " + home +
                    " /mnt; chmod 750 /mnt/.cache/horovodrun\n"
                    "for d in /var/tmp /dev/shm /tmp; do mount -t tmpfs -o ro none $d; done\n"
                    "printf '#!/bin/sh\\nexit 1' >/mnt/python3; chmod 755 /mnt/python3\n"
                    "PATH=/mnt:$PATH")));

    CHECK_FALSE(outcome.has_reported);
    REQUIRE(outcome.error);
    CHECK_THAT(outcome.error->message,
               Contains("/mnt/.cache/horovodrun is not a plain folder of mode 0700"));
}

TEST_CASE("an agent that is executed at once looks at its folders too") {
    const test::TempDir folder;
    const auto run = [&](const std::string& name, fs::perms mode) {
        const auto cache = folder.path() / name;
        fs::create_directory(cache);
        fs::permissions(cache, mode);
        const auto line = ": | " HVD_AGENT " --found-in " + cache.string() + " | grep -q HVDWIRE1";
        return std::system(line.c_str());  // NOLINT(concurrency-mt-unsafe): there is one thread
    };
    const auto ours = std::string(launch::wire::build_id()) + "-0";

    CHECK(run(ours, fs::perms::owner_all) == 0);
    CHECK(run(ours, fs::perms::owner_all | fs::perms::others_read) != 0);
    CHECK(run("0.1+other-0", fs::perms::owner_all) != 0);
}

TEST_CASE("the user's own cache is the first place for the agent, where it is named") {
    const test::TempDir folder;
    const auto host = make_host(folder, "export XDG_CACHE_HOME=$HOME/xdg");

    REQUIRE(link_through(host).has_reported);

    const auto build = std::string(launch::wire::build_id());
    const fs::directory_iterator caches(folder.path() / "home/xdg/horovodrun");
    CHECK_THAT(caches->path().filename().string(), Catch::StartsWith(build + "-"));
    CHECK(files_below(caches->path()) == kJustTheAgent);
    CHECK_FALSE(fs::exists(folder.path() / "home/.cache"));
}

TEST_CASE("the agent's folders are for their owner alone, whatever the mode mask") {
    const test::TempDir folder;

    const auto outcome = link_through(make_host(folder, "umask 0"));

    CHECK(outcome.has_reported);
    struct stat facts {};
    REQUIRE(::stat((folder.path() / "home/.cache/horovodrun").c_str(), &facts) == 0);
    CHECK((facts.st_mode & 0777U) == 0700U);
}

TEST_CASE("where nothing can be executed, memory can") {
    if (!can_mount()) {
        return;
    }
    const test::TempDir folder;
    const auto host = make_host(folder, with_mounts("for d in /var/tmp /dev/shm /mnt /tmp; do\n"
                                                    "mount -t tmpfs -o noexec none $d; done"));

    const auto outcome = link_through(host);

    CAPTURE(outcome.error.value_or(Error{}).message);
    CHECK(outcome.has_reported);
}

TEST_CASE("a host without any place for the agent lists each with its reason") {
    if (!can_mount()) {
        return;
    }
    const test::TempDir folder;
    const auto host = make_host(
        folder,
        with_mounts("mount -o remount,ro /mnt; mount -t tmpfs -o noexec none /var/tmp\n"
                    "mount -t tmpfs -o size=64k none /dev/shm; mount -t tmpfs -o noexec none /tmp\n"
                    "printf '#!/bin/sh\\necho no python3 today >&2; exit 1' >/dev/shm/python3\n"
                    "chmod 755 /dev/shm/python3; PATH=/dev/shm:$PATH"));

    const auto outcome = link_through(host);

    CHECK_FALSE(outcome.has_reported);
    REQUIRE(outcome.error);
    const auto& message = outcome.error->message;
    CHECK_THAT(message, Contains("/mnt/.cache/horovodrun: mkdir: Read-only file system"));
    CHECK_THAT(message, Contains("/var/tmp/horovodrun-0: execute: Permission denied"));
    CHECK_THAT(message, Contains("/dev/shm/horovodrun-0: write: No space left on device"));
    CHECK_THAT(message, Contains("/tmp/horovodrun-0: execute: Permission denied"));
    CHECK_THAT(message, Contains("no python3 today"));
}

TEST_CASE("a host with another processor is refused in words") {
    const test::TempDir folder;
    const auto uname = folder.write("uname", "#!/bin/sh\necho riscv64\n");
    fs::permissions(uname, fs::perms::owner_all);

    const auto outcome =
        link_through(make_host(folder, "PATH=" + folder.path().string() + ":$PATH"));

    REQUIRE(outcome.error);
    CHECK_THAT(outcome.error->message, Contains("this machine is riscv64, the agent is for "));
}

TEST_CASE("the words of a transport that fails are the error") {
    const test::TempDir folder;

    const auto outcome = link_through(make_host(folder, "echo no route to the moon >&2; exit 255"));

    REQUIRE(outcome.error);
    CHECK_THAT(outcome.error->message,
               Contains("remote.sh ended with status 255: no route to the moon"));
}

TEST_CASE("a remote shell that does not exist is named") {
    const auto outcome = link_through("/nowhere/rsh");

    REQUIRE(outcome.error);
    CHECK_THAT(outcome.error->message, Contains("/nowhere/rsh: No such file or directory"));
}

TEST_CASE("a host that says nothing is given up in time") {
    const test::TempDir folder;
    const auto host = make_host(folder, "exec sleep 60");

    const auto linked = test::link(
        {{.name = "there", .slots = {}}},
        {.options = {.remote_shell = {host}}, .answer_timeout = std::chrono::milliseconds(200)});

    const auto& outcome = linked.hosts.front();
    REQUIRE(outcome.error);
    CHECK(outcome.error->code == Errc::timed_out);
    CHECK_THAT(outcome.error->message, Contains("nothing came for 1 s"));
    CHECK(linked.took < std::chrono::seconds(5));
}

TEST_CASE("what is started has the limit of open files that we were given") {
    const test::TempDir folder;
    const auto limit = folder.path() / "limit";
    const auto host = make_host(folder, "ulimit -Sn > " + limit.string());
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const rlimit lowered{.rlim_cur = 300, .rlim_max = before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &lowered) == 0);

    CHECK(link_through(host).has_reported);

    rlimit during{};
    (void)::getrlimit(RLIMIT_NOFILE, &during);
    (void)::setrlimit(RLIMIT_NOFILE, &before);
    CHECK(during.rlim_cur == before.rlim_max);
    CHECK(test::TempDir::read(limit) == "300\n");
}
