// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/join/port_holder.hpp"

#include <catch2/catch.hpp>

namespace hvd::launch {
namespace {

constexpr std::string_view kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 "
    "111 1 0000000000000000 20 4 30 10 -1\n"
    "   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 "
    "222 1 0000000000000000 100 0 0 10 0\n"
    "   2: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A "
    "00000000:00000000 00:00000000 00000000     0        0 333 1 0000000000000000 100 0 0 10 0\n";

TEST_CASE("who listens on a port is found by its state, for both kinds of addresses") {
    const auto four = find_listener(kTable, 8'080);
    REQUIRE(four);
    CHECK(four->user == "1001");
    CHECK(four->inode == "222");

    const auto six = find_listener(kTable, 8'081);
    REQUIRE(six);
    CHECK(six->user == "0");
}

TEST_CASE("nobody is found where nobody listens") {
    CHECK_FALSE(find_listener(kTable, 8'082));
    CHECK_FALSE(find_listener("", 8'080));
    CHECK_FALSE(find_listener("  1: x:zz y 0A 0 0 0 0 0 1\n", 8'080));
}

}  // namespace
}  // namespace hvd::launch
