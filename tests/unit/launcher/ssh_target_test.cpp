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
        (void)folder_.write("known", "node1 " + kKey);
        (void)folder_.write("key", "");
    }

    [[nodiscard]] std::string path() const { return folder_.path().string(); }

    [[nodiscard]] std::variant<SshTarget, UseSystemSsh> make(const std::string& config,
                                                             const Host& host = {
                                                                 .name = "node1"}) const {
        const Environment environment{{"KEYS", path()}, {"SSH_AUTH_SOCK", "/agent"}};
        const SshOptions options{
            .config = folder_.write(
                "config", config + "\nUserKnownHostsFile ~/known\nGlobalKnownHostsFile none\n")};
        KnownHostsFiles known;
        return make_target(host, options, {.name = "me", .home = path()}, environment, known);
    }

    [[nodiscard]] SshTarget target(const std::string& config) const {
        auto made = make(config);
        INFO((made.index() == 1 ? std::get<UseSystemSsh>(made).reason : ""));
        REQUIRE(made.index() == 0);
        return std::get<SshTarget>(std::move(made));
    }

    [[nodiscard]] std::string obstacle(const std::string& config) const {
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
    CHECK(home.obstacle("ControlPath ${KEYS}/key\n") == "of a ControlPath");
    CHECK(home.target("ControlPath ${KEYS}/gone\n").name == "node1");
}

TEST_CASE("a variable that is not set is left to ssh, which has the words for it") {
    const Home home;

    CHECK(home.obstacle("IdentityFile ${GONE}/key\n") ==
          "of an unknown token or an unset variable in an IdentityFile");
    CHECK(home.obstacle("UserKnownHostsFile ${GONE}/known\n") ==
          "of an unknown token or an unset variable in a UserKnownHostsFile");
    CHECK(home.obstacle("IdentityAgent ${GONE}\n") ==
          "of an unknown token or an unset variable in an IdentityAgent");
    CHECK(home.obstacle("ControlPath ${GONE}\n") == "of a ControlPath");
}

TEST_CASE("an agent is named by its path, by a variable, or not at all") {
    const Home home;

    CHECK(home.target("").agent_socket == "/agent");
    CHECK(home.target("IdentityAgent SSH_AUTH_SOCK\n").agent_socket == "/agent");
    CHECK(home.target("IdentityAgent $KEYS\n").agent_socket == home.path());
    CHECK(home.target("IdentityAgent $GONE\n").agent_socket == std::nullopt);
    CHECK(home.target("IdentityAgent none\n").agent_socket == std::nullopt);
}
