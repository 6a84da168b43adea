// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/encoding.hpp"
#include "launcher/remote/ssh/key_file.hpp"
#include "launcher/remote/ssh/known_hosts.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>

using namespace hvd::launch::ssh;  // NOLINT(google-build-using-namespace): a test of this namespace

namespace {

const std::string kKey = "AAAAC3NzaC1lZDI1NTE5AAAAIBQfCW+63e9MQZDw6yWZlkCfpyOuS+Ah0VfRxTGeJ31C";
const std::string kOther = "AAAAC3NzaC1lZDI1NTE5AAAAIKOy4NjROuJpu468dAKQRdMTyLDjBoyzbplv2UeqR1qb";

std::size_t matches(const std::string& hosts, std::string_view name) {
    return KnownHosts(std::string(hosts + " ssh-ed25519 " + kKey + "\n"), "/k").find(name).size();
}

HostKeyVerdict judge(const std::string& file, const std::string& name = "node7") {
    return judge_host_key(KnownHosts(std::string(file), "/k").find(name),
                          decode_base64(kKey).value_or(""));
}

/// A private key file as ssh-keygen writes it, up to where the secret would stand.
std::string key_file(const std::string& cipher, const std::string& type) {
    const auto blob = text_field(type) + text_field("point");
    const auto bytes = std::string("openssh-key-v1\0", 15) + text_field(cipher) +
                       text_field("bcrypt") + text_field("") + number_field(1) + text_field(blob) +
                       text_field("...");
    return "-----BEGIN OPENSSH PRIVATE KEY-----\n" + encode_base64(bytes) +
           "\n-----END OPENSSH PRIVATE KEY-----\n";
}

}  // namespace

TEST_CASE("base64 and fingerprints are those of ssh-keygen") {
    const auto blob = decode_base64(kKey);

    REQUIRE(blob);
    CHECK(encode_base64(*blob) == kKey);
    CHECK(key_type(*blob) == "ssh-ed25519");
    CHECK(fingerprint(*blob) == "SHA256:d4BnXDmoHr11lzfCdbpb5sf1bY1K9t0XFSfOIMpx2yo");
    CHECK_FALSE(decode_base64("a*b"));
}

TEST_CASE("names in known_hosts match as in ssh") {
    CHECK(matches("node7", "node7") == 1);
    CHECK(matches("node7", "node70") == 0);
    CHECK(matches("h2", "h2") == 1);
    CHECK(matches("a,NODE7,b", "Node7") == 1);
    CHECK(matches("node*,!node7", "node7") == 0);
    CHECK(matches("node?", "node7") == 1);
    CHECK(matches("[node7]:2222", "[node7]:2222") == 1);
    CHECK(matches("node7", "[node7]:2222") == 0);
    CHECK(matches("|1|f/n3Um5hdjRZQ9LKStngr/hCayI=|CTVz03eyQcF5oTKC0TtF0j9+OWc=", "node7") == 1);
    CHECK(matches("|1|f/n3Um5hdjRZQ9LKStngr/hCayI=|CTVz03eyQcF5oTKC0TtF0j9+OWc=", "node8") == 0);
    CHECK(known_hosts_name("Node7", 22) == "node7");
    CHECK(known_hosts_name("Node7", 2222) == "[node7]:2222");
}

TEST_CASE("a host key is known, changed, unknown or revoked") {
    CHECK(judge("node7 ssh-ed25519 " + kKey) == HostKeyVerdict::known);
    CHECK(judge("node7 ssh-ed25519 " + kOther + "\nnode7 ssh-ed25519 " + kKey) ==
          HostKeyVerdict::known);
    CHECK(judge("node7 ssh-ed25519 " + kOther) == HostKeyVerdict::changed);
    CHECK(judge("node8 ssh-ed25519 " + kKey) == HostKeyVerdict::unknown);
    CHECK(judge("node7 ssh-ed25519 " + kKey + "\n@revoked * ssh-ed25519 " + kKey) ==
          HostKeyVerdict::revoked);
    CHECK(judge("@cert-authority * ssh-ed25519 " + kKey) == HostKeyVerdict::unknown);
    CHECK(judge("@unheard-of node7 ssh-ed25519 " + kKey) == HostKeyVerdict::unknown);
    CHECK(judge("node7 ssh-rsa " + kKey) == HostKeyVerdict::unknown);
    CHECK(judge("node7 ssh-ed25519\nnode7\n#node7 ssh-ed25519 " + kKey) == HostKeyVerdict::unknown);
}

TEST_CASE("a key of the name without its port counts where the port has none") {
    const auto verdict = [](const std::string& file) {
        KnownHosts hosts(std::string(file), "/k");
        return judge_host_key(hosts.find("[node7]:2222"), decode_base64(kKey).value_or(""),
                              hosts.find("node7"));
    };
    const auto right = " ssh-ed25519 " + kKey + "\n";
    const auto wrong = " ssh-ed25519 " + kOther + "\n";

    CHECK(verdict("node7" + right) == HostKeyVerdict::known);
    CHECK(verdict("node7" + wrong) == HostKeyVerdict::unknown);
    CHECK(verdict("[node7]:2222" + wrong + "node7" + right) == HostKeyVerdict::changed);
    CHECK(verdict("[node7]:2222" + right + "node7" + wrong) == HostKeyVerdict::known);
    CHECK(verdict("@revoked [node7]:2222" + right + "node7" + right) == HostKeyVerdict::revoked);
    CHECK(verdict("@revoked node7" + right + "node7" + right) == HostKeyVerdict::revoked);
    CHECK(verdict("@revoked node7" + right) == HostKeyVerdict::revoked);
    CHECK(verdict("") == HostKeyVerdict::unknown);
}

TEST_CASE("lines that match a name keep their order, however they spell it") {
    KnownHosts hosts("a,node7,node7 ssh-ed25519 " + kKey + "\n# none\nnode* ssh-ed25519 " + kOther +
                         "\n|1|f/n3Um5hdjRZQ9LKStngr/hCayI=|CTVz03eyQcF5oTKC0TtF0j9+OWc= "
                         "ssh-ed25519 " +
                         kKey + "\nnode7 ssh-ed25519 " + kOther,
                     "/k");
    std::vector<std::string> places;
    for (const auto& key : hosts.find("NODE7")) {
        places.push_back(key.place);
    }

    CHECK(places == std::vector<std::string>{"/k:1", "/k:3", "/k:4", "/k:5"});
    CHECK(hosts.find("node8").size() == 1);
    CHECK(hosts.find("b").empty());
}

TEST_CASE("many hosts in a file of many lines are found in no time") {
    constexpr int kHosts = 20'000;  // gone through line by line, a minute
    std::string text;
    for (int host = 0; host < kHosts; ++host) {
        text += "node" + std::to_string(host) + " ssh-ed25519 " + kKey + "\n";
    }
    KnownHosts hosts(text, "/k");
    std::size_t found = 0;
    for (int host = 0; host < kHosts; ++host) {
        found += hosts.find("node" + std::to_string(host)).size();
    }

    CHECK(found == kHosts);
}

TEST_CASE("hashed lines of many hosts are found, each for its host, as often as it is asked") {
    constexpr int kHosts = 200;
    std::string text;
    HmacSha1 hmac;
    for (int host = 0; host < kHosts; ++host) {
        const auto name = "node" + std::to_string(host);
        const auto salt = std::string(16, 's') + std::to_string(host);
        text += "|1|" + encode_base64(salt) + "|" + encode_base64(hmac.of(salt, name)) +
                " ssh-ed25519 " + kKey + "\n";
    }
    text += "node7 ssh-ed25519 " + kKey + "\n";
    KnownHosts hosts(text, "/k");

    for (int host = 0; host < kHosts; ++host) {
        const auto name = "node" + std::to_string(host);
        const std::size_t lines = host == 7 ? 2 : 1;
        CHECK(hosts.find(name).size() == lines);
        CHECK(hosts.find(name).size() == lines);
        CHECK(hosts.find(name).front().place == "/k:" + std::to_string(host + 1));
    }
    CHECK(hosts.find("node200").empty());
}

TEST_CASE("only algorithms that a key is known for are asked for") {
    const auto keys = KnownHosts(std::string("node7 ssh-ed25519 " + kKey), "/k").find("node7");
    REQUIRE(keys.size() == 1);
    CHECK(keys.front().place == "/k:1");

    CHECK(host_key_algorithms(keys) == "ssh-ed25519");
    CHECK(host_key_algorithms({}) ==
          "ecdsa-sha2-nistp256,ssh-ed25519,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521");
    CHECK(host_key_algorithms({{.type = "ssh-rsa"}}).empty());
    CHECK(host_key_algorithms({{.marker = KnownKey::Marker::cert_authority}}).empty());
}

TEST_CASE("a key file says what can be done with it") {
    const auto plain = inspect_key_file(key_file("none", "ssh-ed25519"));
    CHECK(plain.kind == KeyFile::Kind::usable);
    CHECK(plain.public_blob == text_field("ssh-ed25519") + text_field("point"));
    CHECK(inspect_key_file(key_file("aes256-ctr", "ssh-ed25519")).kind == KeyFile::Kind::encrypted);
    CHECK(inspect_key_file(key_file("none", "ssh-rsa")).kind == KeyFile::Kind::unsupported);
    CHECK(inspect_key_file(key_file("none", "sk-ssh-ed25519@openssh.com")).kind ==
          KeyFile::Kind::unsupported);
    CHECK(inspect_key_file("").kind == KeyFile::Kind::unsupported);
    CHECK(inspect_key_file("-----END OPENSSH PRIVATE KEY-----\n-----BEGIN OPENSSH PRIVATE KEY-----")
              .kind == KeyFile::Kind::unsupported);
}
