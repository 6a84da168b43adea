// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/port_holder.hpp"

#include <catch2/catch.hpp>

#include <string>

namespace hvd::coll::net {
namespace {

constexpr std::uint16_t kPort = 8'080;

/// A line of /proc/net/tcp as a little-endian machine writes it. `state`: 0A listens.
std::string line(const std::string& local, const std::string& inode, const char* state = "0A") {
    return "   0: " + local + " 00000000:0000 " + state +
           " 00000000:00000000 00:00000000 00000000  1001        0 " + inode +
           " 1 0000000000000000 100 0 0 10 0\n";
}

const std::string kHeader =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n";
const std::string kOther = line("0200007F:1F90", "2");                           // 127.0.0.2
const std::string kSame = line("0100007F:1F90", "1");                            // 127.0.0.1
const std::string kAny = line("00000000:1F90", "4");                             // 0.0.0.0
const std::string kSix = line("00000000000000000000000001000000:1F90", "61");    // ::1
const std::string kAnySix = line("00000000000000000000000000000000:1F90", "6");  // ::
const std::string kMapped = line("0000000000000000FFFF00000100007F:1F90", "41");

std::string holder(const std::string& table, std::string_view at, std::uint16_t port = kPort) {
    const auto found = find_port_holders(table, *parse_ip(at), {port, port});
    return found.empty() ? "nobody" : found.at(port).inode;
}

TEST_CASE("who has a port at another address does not keep anybody from this one") {
    CHECK(holder(kHeader + kOther + kSix, "127.0.0.1") == "nobody");
    CHECK(holder(kHeader + kOther + kSame, "127.0.0.1") == "1");
    CHECK(holder(kHeader + kSame + kOther, "127.0.0.2") == "2");
    CHECK(holder(kHeader + kSame + kAny + kSix, "::1") == "61");
    CHECK(holder(kHeader + kSame + kAny, "::1") == "nobody");
}

TEST_CASE("who has a port at all addresses has it at each, of IPv6 those of IPv4 too") {
    CHECK(holder(kOther + kAny, "127.0.0.1") == "4");
    CHECK(holder(kOther + kAnySix, "127.0.0.1") == "6");
    CHECK(holder(kAnySix, "::1") == "6");
    CHECK(holder(kMapped, "127.0.0.1") == "41");
    CHECK(holder(kSame, "::ffff:127.0.0.1") == "1");
}

TEST_CASE("whoever has a port anywhere keeps others from all addresses") {
    CHECK(holder(kSix + kOther, "0.0.0.0") == "2");
    CHECK(holder(kOther, "::") == "2");
    CHECK(holder(kSix, "0.0.0.0") == "nobody");
}

TEST_CASE("of several the nearest has the port, and who listens before who has a connection") {
    CHECK(holder(kAnySix + kAny + kSame, "127.0.0.1") == "1");
    CHECK(holder(kAnySix + kAny, "127.0.0.1") == "4");

    const auto connected = line("0100007F:1F90", "7", "01");
    CHECK(holder(connected + kAnySix, "127.0.0.1") == "6");
    CHECK(holder(connected, "127.0.0.1") == "7");
    CHECK(holder(line("0100007F:1F90", "0", "06"), "127.0.0.1") == "nobody");  // it is over
}

TEST_CASE("of a range every port has its own holder") {
    const auto table = line("0200007F:1F91", "12") + line("0100007F:1F91", "11") +
                       line("0100007F:1F94", "5") + line("0200007F:1F92", "3") + kSame;

    const auto found = find_port_holders(table, *parse_ip("127.0.0.1"), {kPort, kPort + 3});

    REQUIRE(found.size() == 2);
    CHECK(found.at(kPort).inode == "1");
    CHECK(found.at(kPort + 1).inode == "11");
}

TEST_CASE("a holder has its user, and nobody is found where nobody is") {
    CHECK(find_port_holders(kSame, *parse_ip("127.0.0.1"), {kPort, kPort}).at(kPort).user ==
          "1001");
    CHECK(holder(kSame, "127.0.0.1", kPort + 1) == "nobody");
    CHECK(holder("", "127.0.0.1") == "nobody");
    for (const char* local : {"x:zz", "1F90", "0100007F:", "01:1F90", "0100007G:1F90", ":"}) {
        CAPTURE(local);
        CHECK(holder(line(local, "1"), "127.0.0.1") == "nobody");
    }
}

}  // namespace
}  // namespace hvd::coll::net
