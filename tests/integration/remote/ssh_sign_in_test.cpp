// SPDX-License-Identifier: Apache-2.0
//
// Hosts that refuse plain keys: what else the system's ssh could try is left to it.
#include "tests/integration/remote/link.hpp"
#include "tests/integration/remote/private_sshd.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace hvd;  // NOLINT(google-build-using-namespace): a test of this namespace
using Catch::Contains;
using test::has_sshd;
using test::KeyAgent;
using test::link;
using test::PrivateSshd;
using test::words;

namespace {

const std::vector<launch::Host> kHosts{{.name = "node1", .slots = {}},
                                       {.name = "node2", .slots = {}}};

}  // namespace

TEST_CASE("a host that trusts a certificate authority alone is reached with the certificate") {
    if (!has_sshd()) {
        return;
    }
    const test::TempDir authority;
    const auto key = (authority.path() / "ca").string();
    const PrivateSshd sshd("AuthorizedKeysFile none\nTrustedUserCAKeys " + key + ".pub");
    sshd.run("ssh-keygen -q -t ed25519 -N '' -f " + key);
    const auto file = (sshd.folder() / "key").string();

    SECTION("found beside the key") {
        sshd.run("ssh-keygen -q -s " + key + " -I me -n $(id -un) key.pub");
        const auto linked = link(kHosts, sshd.options());

        CAPTURE(words(linked));
        CHECK(linked.hosts[0].has_reported);
        CHECK(linked.hosts[1].has_reported);
        REQUIRE(linked.notes.size() == 1);
        CHECK_THAT(linked.notes.front(),
                   Contains("reached through the system's ssh, because authentication as ") &&
                       Contains("only ssh can use " + file + "-cert.pub"));
    }
    SECTION("beside the key that -i names") {
        sshd.run("mv key other && mv key.pub other.pub && ssh-keygen -q -s " + key +
                 " -I me -n $(id -un) other.pub");
        auto options = sshd.options();
        options.options.identity = sshd.folder() / "other";
        const auto linked = link(kHosts, options);

        CAPTURE(words(linked));
        CHECK(linked.hosts[0].has_reported);
        CHECK(linked.notes.size() == 1);
    }
    SECTION("beside the public half of a key that an agent has") {
        const KeyAgent agent(sshd);
        sshd.run("ssh-keygen -q -s " + key + " -I me -n $(id -un) key.pub");
        const auto linked = link(kHosts, sshd.options(agent.settings()));

        CAPTURE(words(linked));
        CHECK(linked.hosts[0].has_reported);
        REQUIRE(linked.notes.size() == 1);
        CHECK_THAT(linked.notes.front(), Contains("only ssh can use " + file + "-cert.pub"));
    }
    SECTION("in an agent") {
        sshd.run("ssh-keygen -q -s " + key + " -I me -n $(id -un) key.pub");
        const KeyAgent agent(sshd);
        sshd.run("rm key-cert.pub");
        const auto linked = link(kHosts, sshd.options(agent.settings()));

        CAPTURE(words(linked));
        CHECK(linked.hosts[0].has_reported);
        REQUIRE(linked.notes.size() == 1);
        CHECK_THAT(linked.notes.front(), Contains("the agent's ssh-ed25519-cert-v01@openssh.com"));
    }
    SECTION("of another authority") {
        sshd.run(
            "ssh-keygen -q -t ed25519 -N '' -f wrong && ssh-keygen -q -s wrong -I me -n "
            "$(id -un) key.pub");
        const auto linked = link({kHosts.front()}, sshd.options());

        CHECK_FALSE(linked.hosts.front().has_reported);
        CHECK(linked.notes.size() == 1);
        CHECK_THAT(words(linked), Contains("Permission denied (publickey)"));
    }
    SECTION("which there is not") {
        const auto linked = link({kHosts.front()}, sshd.options());

        CHECK(linked.notes.empty());
        CHECK_THAT(words(linked), Contains("the host refused " + file + "; it accepts publickey"));
    }
}

TEST_CASE("a method that only ssh can try is left to it where the user's settings want it") {
    if (!has_sshd()) {
        return;
    }
    const PrivateSshd sshd("GSSAPIAuthentication yes\nHostbasedAuthentication yes");
    sshd.run(": > authorized");

    SECTION("GSSAPI") {
        const auto linked = link({kHosts.front()}, sshd.options("GSSAPIAuthentication yes"));
        REQUIRE(linked.notes.size() == 1);
        CHECK_THAT(linked.notes.front(), Contains("the host refused ") &&
                                             Contains("and only ssh can try gssapi-with-mic"));
        CHECK_THAT(words(linked),
                   Contains("Permission denied (publickey") && Contains("gssapi-with-mic"));
    }
    SECTION("of hosts") {
        const auto linked = link({kHosts.front()}, sshd.options("HostbasedAuthentication yes"));
        REQUIRE(linked.notes.size() == 1);
        CHECK_THAT(linked.notes.front(), Contains("and only ssh can try hostbased"));
    }
    SECTION("that they leave out") {
        const auto linked = link(
            {kHosts.front()}, sshd.options("HostbasedAuthentication yes\n"
                                           "PreferredAuthentications gssapi-with-mic,publickey"));
        CHECK(linked.notes.empty());
        CHECK_THAT(words(linked), Contains("it accepts publickey,") && Contains("hostbased"));
    }
    SECTION("and no key") {
        const auto linked =
            link({kHosts.front()}, sshd.options("PreferredAuthentications gssapi-with-mic"));
        REQUIRE(linked.notes.size() == 1);
        CHECK_THAT(linked.notes.front(), Contains("of PreferredAuthentications without publickey"));
    }
    SECTION("by default") {
        const auto linked = link({kHosts.front()}, sshd.options());
        CHECK(linked.notes.empty());
        CHECK_THAT(words(linked), Contains("the host refused ") && Contains("/key"));
    }
}

TEST_CASE("a host that would ask for a password says so, with the way round it") {
    if (!has_sshd()) {
        return;
    }
    const PrivateSshd sshd("PasswordAuthentication yes");
    sshd.run(": > authorized");

    const auto linked = link({kHosts.front()}, sshd.options());

    CHECK(linked.notes.empty());
    CHECK_THAT(words(linked), Contains("it accepts publickey,password") &&
                                  Contains("first open a connection that ssh shares"));
}
