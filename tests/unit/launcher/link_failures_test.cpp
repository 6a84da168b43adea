// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/link_failures.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

namespace hvd::launch {
namespace {

HostResult failed(std::string host, std::string error) {
    return {.host = std::move(host), .state = "lost", .error = std::move(error)};
}

using Sentences = std::vector<std::string>;

TEST_CASE("hosts that failed alike but for name and address are told in one sentence") {
    const auto sentences = tell_link_failures(
        {failed("h2", "ssh to root@h2 port 22: connecting: 10.0.0.2: Connection refused"),
         failed("h3", "ssh to root@h3 port 22: authentication: permission denied"),
         failed("h24", "ssh to root@h24 port 22: connecting: 10.0.0.24: Connection refused"),
         failed("h5", "ssh to root@h5 port 22: connecting: fe80::5: Connection refused")},
        {});

    CHECK(sentences ==
          Sentences{"h2: ssh to root@h2 port 22: connecting: 10.0.0.2: Connection refused; the "
                    "same: h24, h5",
                    "h3: ssh to root@h3 port 22: authentication: permission denied"});
}

TEST_CASE("hosts are alike under a domain, and after different times") {
    const auto sentences = tell_link_failures(
        {failed("a", "ssh to me@a.site.org port 22: connecting for 17 s: no answer"),
         failed("b", "ssh to me@b.site.org port 22: connecting for 18.5 s: no answer"),
         failed("c", "ssh to me@c.site.org port 22: connecting for 18 steps: no answer")},
        {});

    CHECK(sentences.size() == 2);
}

TEST_CASE("what differs in more than the address stays apart") {
    const auto sentences = tell_link_failures(
        {failed("a", "its host key is not known (ssh-ed25519 SHA256:abc)"),
         failed("b", "its host key is not known (ssh-ed25519 SHA256:def)"),
         failed("c", "rsh ended with status 3"), failed("d", "rsh ended with status 4")},
        {});

    CHECK(sentences.size() == 4);
}

TEST_CASE("who was not waited for is named at the end") {
    const auto sentences = tell_link_failures({}, {"a", "b", "c", "d", "e", "f", "g", "h", "i"});

    CHECK(sentences == Sentences{"not waited for: a, b, c, d, e, f, g, h and 1 more hosts"});
}

}  // namespace
}  // namespace hvd::launch
