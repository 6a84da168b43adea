// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/ssh_config.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <vector>

using namespace hvd::launch::ssh;  // NOLINT(google-build-using-namespace): a test of this namespace

namespace {

ConfigQuery query_for(std::string host) {
    return {.host = std::move(host),
            .user = {},
            .local_user = "me",
            .include = [](const std::string& pattern, const std::string& /*from*/) {
                std::vector<ConfigFile> files;
                if (pattern == "conf.d/*") {
                    files.push_back({.path = "/conf.d/a", .text = "Host node*\nUser included\n"});
                }
                return files;
            }};
}

SshConfig read(std::string_view text, std::string host = "node1") {
    SshConfig config;
    read_ssh_config({.path = "/c", .text = std::string(text)}, query_for(std::move(host)), config);
    return config;
}

}  // namespace

TEST_CASE("the first value that matches the host counts, and key files add up") {
    const auto config = read(
        "# comment\nHost other\n  User wrong\nHost node? !node9\n  HostName=10.0.0.1 # why\n"
        "  Port 2222\n  IdentityFile ~/.ssh/a\nHost *\n  Port 1\n  IdentityFile \"/k e y\"\n");

    CHECK(config.hostname == "10.0.0.1");
    CHECK(config.port == 2222);
    CHECK(config.identity_files == std::vector<std::string>{"~/.ssh/a", "/k e y"});
    CHECK_FALSE(config.user);
    CHECK_FALSE(config.unsupported);
    CHECK(read("Host node? !node9\nPort 5\n", "node9").port == std::nullopt);
}

TEST_CASE("the ways to write a value are those of ssh") {
    const auto text = GENERATE(values<std::string>(
        {"Port 7", "port=7", "PORT = 7", "  Port\t7  ", "Port \"7\"", "Port 7\r"}));
    CAPTURE(text);

    CHECK(read(text).port == 7);
}

TEST_CASE("a keyword that we do not follow is recorded as unsupported where its block matches") {
    CHECK(read("Host node1\n  ProxyJump gate\n").unsupported == "ProxyJump in /c, line 2");
    CHECK(read("Ciphers aes128-ctr\n").unsupported == "Ciphers in /c, line 1");
    CHECK(read("Host else\n  ProxyJump gate\n").unsupported == std::nullopt);
    CHECK(read("ProxyJump none\nForwardAgent no\nSendEnv LANG LC_*\n").unsupported == std::nullopt);
    CHECK(read("ForwardAgent yes\n").unsupported == "ForwardAgent in /c, line 1");
    CHECK(read("Port many\n").unsupported == "Port in /c, line 1");
}

TEST_CASE("what else than keys ssh may try is read, the first word of each") {
    const auto config = read(
        "Host node1\nGSSAPIAuthentication yes\nHost *\nGSSAPIAuthentication no\n"
        "HostbasedAuthentication yes\nPreferredAuthentications publickey,hostbased\n");

    CHECK(config.gssapi_authentication == "yes");
    CHECK(config.hostbased_authentication == "yes");
    CHECK(config.preferred_authentications == "publickey,hostbased");
    CHECK_FALSE(config.unsupported);
}

TEST_CASE("Match follows host and user, and leaves the rest to ssh") {
    CHECK(read("Match host node1,node2\n  Port 5\n").port == 5);
    CHECK(read("Match host node1 user me\n  Port 5\n").port == 5);
    CHECK(read("Match host node1 !user me\n  Port 5\n").port == std::nullopt);
    CHECK(read("HostName n.example\nMatch host *.example\n  Port 5\n").port == 5);
    CHECK(read("Match all\n  Port 5\n").port == 5);
    CHECK(read("Match exec \"true\"\n  Port 5\n").unsupported == "Match in /c, line 1");
    CHECK(read("Match host node2 exec true\n  Port 5\n").unsupported == std::nullopt);
}

TEST_CASE("included files are read in place, within the block that names them") {
    CHECK(read("Include conf.d/*\nUser later\n").user == "included");
    CHECK(read("Host else\n  Include conf.d/*\nHost *\n  User later\n").user == "later");
}

TEST_CASE("tokens are replaced, and unknown ones are not guessed") {
    const ConfigTokens tokens{.host = "10.0.0.1",
                              .original = "node1",
                              .port = "22",
                              .user = "ann",
                              .local = "me",
                              .home = "/home/me"};

    CHECK(expand_tokens("~/.ssh/%r@%h:%p-%n-%u%%", tokens) ==
          "/home/me/.ssh/ann@10.0.0.1:22-node1-me%");
    CHECK(expand_tokens("%d/k", tokens) == "/home/me/k");
    CHECK(expand_tokens("~/%C", tokens) == std::nullopt);
    CHECK(expand_tokens("%", tokens) == std::nullopt);
}

TEST_CASE("variables are replaced by their values, which stay as they are") {
    const hvd::Environment environment{{"KEYS", "/k/%h${KEYS}"}, {"NONE", ""}, {"A B", "x"}};
    const ConfigTokens tokens{.host = "h", .environment = &environment};
    const ConfigTokens without{.host = "h"};

    CHECK(expand_tokens("${KEYS}/%h${NONE}$KEYS$", tokens) == "/k/%h${KEYS}/h$KEYS$");
    CHECK(expand_tokens("%%${A B}{}", tokens) == "%x{}");
    CHECK(expand_tokens("${UNSET}/k", tokens) == std::nullopt);
    CHECK(expand_tokens("${}", tokens) == std::nullopt);
    CHECK(expand_tokens("${KEYS", tokens) == std::nullopt);
    CHECK(expand_tokens("${KEYS}/%h", without) == "${KEYS}/h");
    CHECK(read("Include ${HOME}/c\n").unsupported == "Include in /c, line 1");
}
