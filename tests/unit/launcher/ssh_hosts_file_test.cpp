// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/ssh/hosts_file.hpp"

#include <catch2/catch.hpp>

#include <optional>
#include <string>

using hvd::launch::ssh::HostsFile;

namespace {

constexpr auto kFilesFirst = "# comment\npasswd: files\nhosts:\tfiles dns # more\n";
constexpr auto kHosts =
    "127.0.0.1 localhost\n"
    "::1 localhost ip6-localhost\n"
    "10.0.0.1\tnode1.example Node1 # 10.0.0.9 node9\n"
    "  fd77::2   node2\r\n"
    "10.0.0.3 node3\n10.0.0.3 node3\n"
    "10.0.0.4\n";

}  // namespace

TEST_CASE("a name of one address in the hosts file is known") {
    const HostsFile file(kFilesFirst, kHosts);

    CHECK(file.find("node1.example") == "10.0.0.1");
    CHECK(file.find("NODE1") == "10.0.0.1");
    CHECK(file.find("node2") == "fd77::2");
    CHECK(file.find("node3") == "10.0.0.3");
}

TEST_CASE("a name of several addresses, in a comment or not there is for the system to resolve") {
    const HostsFile file(kFilesFirst, kHosts);
    const auto* const name = GENERATE("localhost", "node9", "10.0.0.9", "node4", "", "10.0.0.4");

    CHECK(file.find(name) == std::nullopt);
}

TEST_CASE("where the system asks something else before the hosts file, so do we") {
    const auto* const nsswitch = GENERATE("", "hosts: dns files\n", "hosts:\n", "#hosts: files\n",
                                          "hosts: mymachines files\n", "passwd: files\n");

    CHECK(HostsFile(nsswitch, kHosts).find("node1") == std::nullopt);
}
