// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/text.hpp"
#include "launcher/remote/bootstrap/agent_image.hpp"
#include "launcher/remote/bootstrap/filter.hpp"
#include "launcher/remote/bootstrap/line.hpp"
#include "launcher/remote/bootstrap/semaphore.hpp"
#include "launcher/remote/command/ssh_command.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using namespace hvd;          // NOLINT(google-build-using-namespace): a test of this namespace
using namespace hvd::launch;  // NOLINT(google-build-using-namespace): a test of this namespace
using Catch::Contains;
using Kind = BootstrapFilter::Kind;

namespace {

std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
}

BootstrapLine example() {
    return {.build_id = "0.29.0+abc",
            .cache_key = "0.29.0+abc-0123",
            .bytes = 1'234'567,
            .machine = "x86_64"};
}

}  // namespace

TEST_CASE("each word of the line is the same word in every shell, and short enough for csh") {
    const auto line = to_command(example());

    bool is_quoted = false;
    std::size_t length = 0;
    for (const char c : line) {
        CHECK(c != '\n');
        CHECK(c != '!');
        length = c == '\'' ? 0 : length + 1;
        is_quoted = c == '\'' ? !is_quoted : is_quoted;
        CHECK(length < 1'000);
    }
    CHECK_FALSE(is_quoted);
    CHECK_THAT(line, Catch::StartsWith("exec /bin/sh -c '"));
    CHECK_THAT(line, Contains("'0.29.0+abc' '0.29.0+abc-0123' '1234567' 'x86_64' '/var/tmp' "));
}

TEST_CASE("a wrapper goes before the shell") {
    auto line = example();
    line.wrap = {"apptainer", "exec", "img.sif"};

    CHECK_THAT(to_command(line), Catch::StartsWith("apptainer exec img.sif /bin/sh -c '"));
}

TEST_CASE("the quick line needs no quotes, and is for no wrapper") {
    auto line = example();
    CHECK(to_quick_command(line) ==
          "test -O ~/.cache/horovodrun && test -O ~/.cache/horovodrun/0.29.0+abc-0123 && "
          "test -O ~/.cache/horovodrun/0.29.0+abc-0123/hvd-agent && "
          "exec ~/.cache/horovodrun/0.29.0+abc-0123/hvd-agent --found-in ~/.cache/horovodrun "
          "~/.cache/horovodrun/0.29.0+abc-0123");

    line.wrap = {"apptainer", "exec", "img.sif"};
    CHECK(to_quick_command(line).empty());

    line = example();
    line.cache_key = "0.29.0;reboot";
    CHECK(to_quick_command(line).empty());
}

TEST_CASE("the filter finds the request and the magic word however the bytes are cut") {
    const std::string stream =
        "Hello\n\nHVDBOOT1 shell\nHVDBOOT2 is not it\n\nHVDBOOT1 send\nHVDWIRE1rest";
    const auto size = GENERATE(values<std::size_t>({1, 2, 3, 7, 64}));
    BootstrapFilter filter;
    std::vector<Kind> kinds;
    std::string started;

    for (std::size_t at = 0; at < stream.size() && started.empty(); at += size) {
        filter.feed(bytes(std::string_view(stream).substr(at, size)));
        for (auto event = filter.next(); event.kind != Kind::nothing; event = filter.next()) {
            kinds.push_back(event.kind);
            if (event.kind == Kind::started) {
                started = event.text + stream.substr(std::min(at + size, stream.size()));
                break;
            }
        }
    }

    CHECK(kinds == std::vector{Kind::in_shell, Kind::send_agent, Kind::started});
    CHECK(started == "HVDWIRE1rest");
    CHECK(filter.banner() == "Hello; HVDBOOT2 is not it");
}

TEST_CASE("a failure is told in the words of the host") {
    BootstrapFilter filter;
    filter.feed(bytes("\nHVDBOOT1 fail this machine is riscv64\n"));

    const auto event = filter.next();

    CHECK(event.kind == Kind::failed);
    CHECK(event.text == "this machine is riscv64");
}

TEST_CASE("64 KiB may come before the magic word, and not more") {
    BootstrapFilter quiet;
    quiet.feed(bytes(std::string(BootstrapFilter::kMaxBanner, 'x') + "HVDWIRE1"));
    CHECK(quiet.next().kind == Kind::started);

    BootstrapFilter loud;
    loud.feed(bytes(std::string(BootstrapFilter::kMaxBanner + 1, 'x') + "HVDWIRE1"));
    CHECK(loud.next().kind == Kind::failed);
}

TEST_CASE("lines that look like ours, but are not, count as what may come before") {
    std::string flood;
    while (flood.size() < std::size_t{1} << 20) {
        flood += "\nHVDBOOT1 what is this\n";
    }
    BootstrapFilter filter;
    filter.feed(std::as_bytes(std::span(flood)));

    CHECK(filter.next().kind == Kind::failed);
}

TEST_CASE("what a terminal would obey is not shown in a banner") {
    BootstrapFilter filter;
    filter.feed(bytes("\x1b[31mred\r\n\n  two\n"));
    (void)filter.next();

    CHECK(filter.banner() == "?[31mred; two");
}

TEST_CASE("a turn is given to who waits longest, and not to who has gone") {
    const auto semaphore = std::make_shared<Semaphore>(1);
    std::string order;
    Permit first(semaphore);
    auto second = std::make_unique<Permit>(semaphore);
    Permit third(semaphore);
    first.take([&] { order += "1"; });
    second->take([&] { order += "2"; });
    third.take([&] { order += "3"; });
    CHECK(order == "1");

    second.reset();
    first.give_up();

    CHECK(order == "13");
}

TEST_CASE("an agent that is no program for Linux is refused with its name") {
    const test::TempDir folder;
    const auto path = folder.write("hvd-agent", "#!/bin/sh\necho hello\n").string();

    const auto image = load_agent_image(path, "1");

    REQUIRE_FALSE(image);
    CHECK(image.error().code == Errc::invalid_argument);
    CHECK_THAT(image.error().message, Contains(path));
}

TEST_CASE("the system's ssh asks nothing and is given what the host and the flags say") {
    const Host host{.name = "[fe80::1]", .slots = {}, .user = "ann", .port = 2222};
    const SshTask task{.options = {.port = 22, .identity = "/k", .config = "/c"}};

    const auto argv = remote_argv(host, task, "LINE");

    const std::vector<std::string> end{
        "-F", "/c",      "-o",  "IdentitiesOnly=yes", "-i", "/k", "-p", "2222", "-l", "ann",
        "--", "fe80::1", "LINE"};
    REQUIRE(argv.size() > end.size());
    CHECK(std::vector<std::string>(argv.end() - static_cast<long>(end.size()), argv.end()) == end);
    CHECK(std::ranges::find(argv, "BatchMode=yes") != argv.end());
}

TEST_CASE("a command is shown with its long words left out") {
    CHECK(show_command({"ssh", "-T", "a b", "", std::string(4'000, 'x')}) ==
          "ssh -T 'a b' '' '(a line of sh, 4000 characters)'");
}

TEST_CASE("the programs of batch systems get host and line, and nothing of SSH's") {
    const auto line_of = [](const std::string& shell, const std::string& host) {
        return remote_argv({.name = host, .slots = {}, .user = {}, .port = {}},
                           {.options = {.remote_shell = *hvd::split_shell_words(shell)}},
                           "exec /bin/sh -c 'LINE'");
    };
    using Words = std::vector<std::string>;

    CHECK(line_of("blaunch", "hostb") == Words{"blaunch", "hostb", "exec /bin/sh -c 'LINE'"});
    CHECK(line_of("qrsh -inherit", "exec2.site") ==
          Words{"qrsh", "-inherit", "exec2.site", "exec /bin/sh -c 'LINE'"});
    CHECK(line_of("/etc/mpi/kubexec.sh", "job-worker-0") ==
          Words{"/etc/mpi/kubexec.sh", "job-worker-0", "exec /bin/sh -c 'LINE'"});
}

TEST_CASE("a remote shell gets host and line") {
    const Host host{.name = "pod-1", .slots = {}, .user = "ann", .port = {}};
    const SshTask task{.options = {.remote_shell = {"kexec", "-n", "two jobs"}}};

    CHECK(remote_argv(host, task, "LINE") ==
          std::vector<std::string>{"kexec", "-n", "two jobs", "ann@pod-1", "LINE"});
    CHECK(remote_argv({.name = "node1", .slots = {}, .user = "ann", .port = 7},
                      {.options = {.identity = "/k", .remote_shell = {"/opt/bin/ssh", "-4"}}},
                      "LINE") == std::vector<std::string>{"/opt/bin/ssh", "-4", "-o",
                                                          "IdentitiesOnly=yes", "-i", "/k", "-p",
                                                          "7", "ann@node1", "LINE"});
}
