// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/build_id.hpp"
#include "tests/integration/remote/link.hpp"
#include "tests/integration/remote/private_sshd.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/test_main.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

using namespace hvd;  // NOLINT(google-build-using-namespace): a test of this namespace
using Catch::Contains;
using test::has_sshd;
using test::KeyAgent;
using test::link;
using test::PrivateSshd;
using test::words;

namespace {

const std::vector<launch::Host> kNode1{{.name = "node1", .slots = {}}};

}  // namespace

TEST_CASE("a host is reached by its alias, with the key and the port of the configuration") {
    if (!has_sshd()) {
        return;
    }
    const PrivateSshd sshd;

    const auto linked = link(kNode1, sshd.options());

    CAPTURE(words(linked));
    CHECK(linked.hosts.front().has_reported);
    CHECK_FALSE(linked.hosts.front().error);
    CHECK(linked.notes.empty());  // so not by the system's ssh
}

TEST_CASE("an answer is heard whenever it comes") {
    if (!has_sshd()) {
        return;
    }
    constexpr int kPings = 4000;
    const PrivateSshd sshd;

    const auto linked = link(kNode1, sshd.options(), std::chrono::seconds(20), kPings);

    CAPTURE(words(linked));
    CHECK(linked.hosts.front().pongs == kPings);
    CHECK(linked.hosts.front().has_ended);
}

TEST_CASE("an agent in the user's own cache is executed at once") {
    if (!has_sshd()) {
        return;
    }
    const test::TempDir home;
    // Notes each line, after a greeting as start-up files print it.
    const PrivateSshd sshd(
        "ForceCommand echo Welcome; echo \"$SSH_ORIGINAL_COMMAND\" | cut -c 1-13 >>$HOME/lines; "
        "eval \"$SSH_ORIGINAL_COMMAND\"\nSetEnv HOME=" +
        home.path().string());

    const auto first = link(kNode1, sshd.options());
    CAPTURE(words(first));
    CHECK(first.hosts.front().has_reported);
    CHECK(first.notes == std::vector<std::string>{"node1: printed at its login: Welcome"});
    CHECK(test::TempDir::read(home.path() / "lines") == "test -O ~/.ca\nexec /bin/sh \n");

    std::filesystem::remove(home.path() / "lines");
    const auto second = link(kNode1, sshd.options());
    CAPTURE(words(second));
    CHECK(second.hosts.front().has_reported);
    CHECK_FALSE(second.hosts.front().error);
    CHECK(test::TempDir::read(home.path() / "lines") == "test -O ~/.ca\n");

    if (::geteuid() != 0) {
        test::skip("a file of another user needs root");
        return;
    }
    const auto cache = home.path() / ".cache/horovodrun";
    const auto planted = std::filesystem::directory_iterator(cache)->path() / "hvd-agent";
    std::ofstream(planted) << "#!/bin/sh\ntouch $HOME/has_run\n";
    REQUIRE(::chown(planted.c_str(), 1, 1) == 0);
    const auto third = link(kNode1, sshd.options());
    CAPTURE(words(third));
    CHECK(third.hosts.front().has_reported);
    CHECK_FALSE(std::filesystem::exists(home.path() / "has_run"));
}

TEST_CASE("what is not our agent, in the place of ours, is replaced by it") {
    if (!has_sshd()) {
        return;
    }
    const test::TempDir home;
    const PrivateSshd sshd("SetEnv HOME=" + home.path().string());
    REQUIRE(link(kNode1, sshd.options()).hosts.front().has_reported);
    const auto agent =
        std::filesystem::directory_iterator(home.path() / ".cache/horovodrun")->path() /
        "hvd-agent";
    const auto ours = test::TempDir::read(agent);
    const auto put = [&](const std::string& bytes) {
        std::filesystem::remove(agent);  // it may still be executed
        std::ofstream(agent) << bytes;
        std::filesystem::permissions(agent, std::filesystem::perms::owner_all);
    };

    SECTION("an agent of another build") {
        const auto build = std::string(launch::wire::build_id());
        const std::string other = std::string(build.size() - 1, '0') + "x";
        auto bytes = ours;
        for (auto at = bytes.find(build); at != std::string::npos; at = bytes.find(build, at)) {
            bytes.replace(at, build.size(), other);
        }
        REQUIRE(bytes != ours);
        put(bytes);
    }
    SECTION("a part of an agent") {
        // Most of the file may be what only debuggers read, so a share of it could run.
        constexpr std::size_t kPart = 512UL * 1024;
        REQUIRE(ours.size() > 2 * kPart);
        put(ours.substr(0, kPart));
    }
    SECTION("the first bytes of one") {
        put(ours.substr(0, 20));
    }
    SECTION("an empty file") {
        put("");
    }

    const auto linked = link(kNode1, sshd.options());

    CAPTURE(words(linked));
    CHECK(linked.hosts.front().has_reported);
    CHECK_FALSE(linked.hosts.front().error);
    CHECK(linked.notes.empty());
    CHECK((test::TempDir::read(agent) == ours));
}

TEST_CASE("a server that runs one line for each connection is asked once more") {
    if (!has_sshd()) {
        return;
    }
    const test::TempDir home;
    // Ends its connection where the quick line has found nothing.
    const PrivateSshd sshd(
        "ForceCommand case $SSH_ORIGINAL_COMMAND in *found-in*) kill -9 $PPID;; *) eval "
        "\"$SSH_ORIGINAL_COMMAND\";; esac\nSetEnv HOME=" +
        home.path().string());

    const auto linked = link(kNode1, sshd.options());

    CAPTURE(words(linked));
    CHECK(linked.hosts.front().has_reported);
    CHECK(linked.notes.empty());
}

TEST_CASE("many hosts are reached at once, though sshd drops some at first") {
    if (!has_sshd()) {
        return;
    }
    const PrivateSshd sshd("MaxStartups 3:50:8");
    std::vector<launch::Host> hosts;
    hosts.reserve(24);
    for (int index = 0; index < 24; ++index) {
        hosts.push_back({.name = "node" + std::to_string(index), .slots = {}});
    }

    const auto linked = link(hosts, sshd.options(), std::chrono::seconds(40));

    for (const auto& outcome : linked.hosts) {
        CAPTURE(outcome.error.value_or(Error{}).message);
        CHECK(outcome.has_reported);
    }
    CHECK(linked.notes.empty());
}

TEST_CASE("what our own ssh cannot do, the system's does, and it is said once") {
    if (!has_sshd()) {
        return;
    }
    const PrivateSshd sshd;
    const std::vector<launch::Host> hosts{{.name = "node1", .slots = {}},
                                          {.name = "node2", .slots = {}}};

    SECTION("a keyword") {
        const auto linked = link(hosts, sshd.options("Ciphers aes128-ctr"));

        CAPTURE(words(linked));
        CHECK(linked.hosts[0].has_reported);
        CHECK(linked.hosts[1].has_reported);
        REQUIRE(linked.notes.size() == 1);
        CHECK_THAT(linked.notes.front(),
                   Contains("node1: reached through the system's ssh, because "
                            "of Ciphers in ") &&
                       Contains("config, line 1"));
    }
    SECTION("an RSA key") {
        sshd.run(
            "ssh-keygen -q -t rsa -b 2048 -N '' -f rsa && mv rsa key && mv rsa.pub key.pub && cp "
            "key.pub authorized");

        const auto linked = link(hosts, sshd.options());

        CAPTURE(words(linked));
        CHECK(linked.hosts[0].has_reported);
        REQUIRE(linked.notes.size() == 1);
        CHECK_THAT(linked.notes.front(), Contains("only ssh can use"));
    }
    SECTION("another host key, where the settings let it pass") {
        sshd.run("echo \"[127.0.0.1]:" + std::to_string(sshd.port()) +
                 " $(cut -d' ' -f1,2 key.pub)\" > known_hosts");
        const auto* word = GENERATE("no", "Off");

        const auto linked = link(hosts, sshd.options("StrictHostKeyChecking " + std::string(word)));

        CAPTURE(words(linked));
        CHECK(linked.hosts[0].has_reported);
        REQUIRE(linked.notes.size() == 1);
        CHECK_THAT(linked.notes.front(), Contains("is not the known one"));
    }
    SECTION("an RSA host key alone is known") {
        sshd.run("echo \"[127.0.0.1]:" + std::to_string(sshd.port()) +
                 " $(cat host_rsa.pub)\" > known_hosts");

        const auto linked = link(hosts, sshd.options());

        CAPTURE(words(linked));
        CHECK(linked.hosts[0].has_reported);
        CHECK(linked.notes.size() == 1);
    }
}

TEST_CASE("ECDSA keys and hashed names of hosts are known to our own ssh") {
    if (!has_sshd()) {
        return;
    }
    const PrivateSshd sshd;
    sshd.run(
        "ssh-keygen -q -t ecdsa -N '' -f ec && mv ec key && mv ec.pub key.pub && cp key.pub "
        "authorized && "
        "ssh-keygen -H -f known_hosts && grep -q '^|1|' known_hosts");

    const auto linked = link(kNode1, sshd.options());

    CAPTURE(words(linked));
    CHECK(linked.hosts.front().has_reported);
    CHECK(linked.notes.empty());
}

TEST_CASE("a key that only ssh-agent has is used") {
    if (!has_sshd()) {
        return;
    }
    const PrivateSshd sshd;
    const KeyAgent agent(sshd);

    const auto linked = link(kNode1, sshd.options(agent.settings()));

    CAPTURE(words(linked));
    CHECK(linked.hosts.front().has_reported);
    CHECK(linked.notes.empty());
}

TEST_CASE("failures are told precisely") {
    if (!has_sshd()) {
        return;
    }
    const PrivateSshd sshd;
    const auto port = std::to_string(sshd.port());
    auto hosts = kNode1;

    SECTION("unknown host key") {
        sshd.run(": > known_hosts");
        const auto linked = link(hosts, sshd.options());
        CHECK_THAT(words(linked), Contains("its host key is not known (ssh-ed25519 SHA256:") &&
                                      Contains("run `ssh node1` once"));
    }
    SECTION("another host key") {
        sshd.run("echo \"[127.0.0.1]:" + port + " $(cut -d' ' -f1,2 key.pub)\" > known_hosts");
        const auto* settings = GENERATE("", "StrictHostKeyChecking accept-new");
        const auto linked = link(hosts, sshd.options(settings));
        CHECK_THAT(words(linked),
                   Contains("ITS HOST KEY IS NOT THE KNOWN ONE") && Contains("known_hosts:1"));
    }
    SECTION("revoked host key") {
        sshd.run("sed 's/^/@revoked /' known_hosts > revoked && cat revoked >> known_hosts");
        const auto linked = link(hosts, sshd.options());
        CHECK_THAT(words(linked), Contains("its host key is revoked"));
    }
    SECTION("refused key") {
        sshd.run(": > authorized");
        const auto linked = link(hosts, sshd.options());
        CHECK_THAT(words(linked), Contains("the host refused ") && Contains("/key") &&
                                      Contains("it accepts publickey"));
    }
    SECTION("closed port") {
        hosts.front().port = 1;
        const auto linked = link(hosts, sshd.options());
        CHECK_THAT(words(linked), Contains("port 1: connecting: 127.0.0.1: Connection refused"));
    }
    SECTION("a name that does not resolve") {
        hosts.front().name = "no-such-host.invalid";
        const auto linked = link(hosts, sshd.options());
        CHECK_THAT(words(linked), Contains("the name no-such-host.invalid does not resolve"));
    }
    SECTION("wrong user") {
        hosts.front().user = "nobody-of-that-name";
        const auto linked = link(hosts, sshd.options());
        CHECK_THAT(words(linked), Contains("authentication as nobody-of-that-name: "));
    }
    SECTION("no shell for the bootstrap") {
        auto options = sshd.options();
        options.options.wrap = {"/nowhere/apptainer", "exec", "img.sif"};
        const auto linked = link(hosts, options);
        CHECK_THAT(words(linked), Contains("the shell there ended with status 127") &&
                                      Contains("/nowhere/apptainer"));
    }
    SECTION("something that prints where the agent was to speak") {
        auto options = sshd.options();
        options.options.wrap = {"sh", "-c", "echo hello; exit 3"};
        const auto linked = link(hosts, options);
        CHECK_THAT(words(linked), Contains("the shell there ended with status 3") &&
                                      Contains("it printed: hello"));
    }
    // One that did not wait for its failure would report.
    CHECK_FALSE(words(link(hosts, sshd.options("Host *\n  Port 1"))).empty());
}

TEST_CASE("an sshd that is killed ends the link with words") {
    if (!has_sshd()) {
        return;
    }
    const PrivateSshd sshd("ForceCommand kill -9 $PPID");

    const auto linked = link(kNode1, sshd.options());

    CHECK_FALSE(linked.hosts.front().has_reported);
    CHECK(linked.hosts.front().has_ended);
    CHECK_FALSE(words(linked).empty());
}
