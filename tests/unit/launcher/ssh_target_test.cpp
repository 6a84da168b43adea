// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/target.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <variant>
#include <vector>

using namespace hvd::launch;  // NOLINT(google-build-using-namespace): tests of this namespace
using hvd::Environment;
using hvd::launch::ssh::KnownHostsFiles;
using hvd::launch::ssh::make_target;
using hvd::launch::ssh::SshTarget;
using hvd::launch::ssh::UseSystemSsh;

namespace {

const std::string kKey =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBQfCW+63e9MQZDw6yWZlkCfpyOuS+Ah0VfRxTGeJ31C\n";

/// A user's home, of which KEYS is the path, and what the settings there make of node1.
class Home {
public:
    Home() {
        know("node1 " + kKey);
        (void)folder_.write("key", "");
    }

    void know(const std::string& lines) const { (void)folder_.write("known", lines); }

    [[nodiscard]] std::string path() const { return folder_.path().string(); }

    [[nodiscard]] std::variant<SshTarget, UseSystemSsh> make(const std::string& config,
                                                             const Host& host = {
                                                                 .name = "node1"}) const {
        const Environment environment{{"KEYS", path()}, {"SSH_AUTH_SOCK", "/agent"}};
        const SshTask task{
            .options = {.config = folder_.write("config", config + "\nUserKnownHostsFile ~/known\n"
                                                                   "GlobalKnownHostsFile none\n")}};
        KnownHostsFiles known;
        return make_target(host, task, {.name = "me", .home = path()}, environment, known);
    }

    [[nodiscard]] SshTarget target(const std::string& config) const {
        auto made = make(config);
        INFO((made.index() == 1 ? std::get<UseSystemSsh>(made).reason : ""));
        REQUIRE(made.index() == 0);
        return std::get<SshTarget>(std::move(made));
    }

    [[nodiscard]] std::string unsupported(const std::string& config) const {
        auto made = make(config);
        return made.index() == 1 ? std::get<UseSystemSsh>(made).reason : "";
    }

private:
    hvd::test::TempDir folder_;
};

}  // namespace

TEST_CASE("the files that settings name may be named with variables") {
    const Home home;
    const auto target = home.target(
        "IdentityFile ${KEYS}/key\nUserKnownHostsFile ${KEYS}/known\nIdentityAgent ${KEYS}/a\n");

    CHECK(target.key_files == std::vector{home.path() + "/key"});
    CHECK(target.known_hosts_file == home.path() + "/known");
    CHECK(target.known_keys.size() == 1);
    CHECK(target.agent_socket == home.path() + "/a");
    CHECK(home.unsupported("ControlPath ${KEYS}/key\n") == "of a ControlPath");
    CHECK(home.target("ControlPath ${KEYS}/gone\n").name == "node1");
}

TEST_CASE("a variable that is not set is left to ssh, which has the words for it") {
    const Home home;

    CHECK(home.unsupported("IdentityFile ${GONE}/key\n") ==
          "of an unknown token or an unset variable in an IdentityFile");
    CHECK(home.unsupported("UserKnownHostsFile ${GONE}/known\n") ==
          "of an unknown token or an unset variable in a UserKnownHostsFile");
    CHECK(home.unsupported("IdentityAgent ${GONE}\n") ==
          "of an unknown token or an unset variable in an IdentityAgent");
    CHECK(home.unsupported("ControlPath ${GONE}\n") == "of a ControlPath");
}

TEST_CASE("an agent is named by its path, by a variable, or not at all") {
    const Home home;

    CHECK(home.target("").agent_socket == "/agent");
    CHECK(home.target("IdentityAgent SSH_AUTH_SOCK\n").agent_socket == "/agent");
    CHECK(home.target("IdentityAgent $KEYS\n").agent_socket == home.path());
    CHECK(home.target("IdentityAgent $GONE\n").agent_socket == std::nullopt);
    CHECK(home.target("IdentityAgent none\n").agent_socket == std::nullopt);
}

TEST_CASE("a host is known at another port by its name alone, where nothing is known of the port") {
    const Home home;
    const Host host{.name = "node1", .port = 2222};
    const auto target = std::get<SshTarget>(home.make("", host));

    CHECK(target.words_for_ssh == "-p 2222 node1");
    CHECK(target.known_hosts_name == "[node1]:2222");
    CHECK(target.known_keys.empty());
    CHECK(target.keys_without_port.size() == 1);
    CHECK(target.host_key_algorithms == "ssh-ed25519");
    CHECK(std::get<SshTarget>(home.make("")).keys_without_port.empty());
    CHECK(std::get<SshTarget>(home.make("Port 2222\n")).keys_without_port.size() == 1);
    CHECK(std::get<SshTarget>(home.make("Port 2222\n")).words_for_ssh == "node1");
    CHECK(std::get<SshTarget>(home.make("HostKeyAlias x\n", host)).keys_without_port.empty());
    CHECK(std::get<UseSystemSsh>(home.make("StrictHostKeyChecking no\n", host)).reason ==
          "of StrictHostKeyChecking no");
}

TEST_CASE("what is known of the port goes before the name alone") {
    const Home home;
    const Host host{.name = "node1", .port = 2222};
    const auto known = [&](const std::string& line) {
        home.know(line + kKey + "node1 " + kKey);
        return home.make("", host);
    };

    CHECK(std::get<SshTarget>(known("[node1]:2222 ")).known_keys.size() == 1);
    CHECK(std::get<SshTarget>(known("[node1]:2222 ")).keys_without_port.empty());
    CHECK(std::get<SshTarget>(known("@revoked [node1]:2222 ")).keys_without_port.size() == 1);
    CHECK(std::holds_alternative<UseSystemSsh>(known("@cert-authority [node1]:2222 ")));
}
