// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/open_files.hpp"

#include <catch2/catch.hpp>

using Catch::Contains;
using hvd::launch::check_room;
using hvd::launch::starts_at_a_time;

TEST_CASE("starts under way leave room for the connections that stand") {
    CHECK(starts_at_a_time({.limit = 1'064, .hosts = 1'000}) == 1);
    CHECK(starts_at_a_time({.limit = 1'064, .hosts = 200}) == 200);
    CHECK(starts_at_a_time({.limit = 1'064, .hosts = 200, .programs = 200}) == 50);
    CHECK(starts_at_a_time({.limit = 1'048'576, .hosts = 1'000}) > 1'000);
    CHECK(starts_at_a_time({.limit = 10, .hosts = 1}) == 1);  // check_room refuses
}

TEST_CASE("connections that the limit of open files has no room for are refused with numbers") {
    CHECK(check_room({.limit = 1'024, .hosts = 900}, "ssh"));
    CHECK(check_room({.limit = 1'024, .hosts = 239, .programs = 239}, "ssh"));

    const auto sockets = check_room({.limit = 1'024, .hosts = 1'000}, "ssh");
    REQUIRE_FALSE(sockets);
    CHECK_THAT(sockets.error().message,
               Contains("connections to 1000 hosts need 1068 open files, and the limit is 1024") &&
                   Contains("ulimit -Hn"));

    const auto programs = check_room({.limit = 1'024, .hosts = 300, .programs = 250}, "kexec");
    REQUIRE_FALSE(programs);
    CHECK_THAT(programs.error().message,
               Contains("connections to 300 hosts, 250 of them through kexec with 4 each need 1118 "
                        "open files"));
}
