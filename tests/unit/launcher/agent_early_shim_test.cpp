// SPDX-License-Identifier: Apache-2.0
//
// What the shim does before the C library has started must be what it does after that.
#include "collectives/launch_contract/mpi_job.hpp"
#include "launcher/agent/early/words.hpp"
#include "launcher/agent/shim_protocol.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstring>
#include <string>

namespace early = hvd::launch::early;
namespace agent = hvd::launch::agent;

TEST_CASE("a rank's place is found as the whole shim finds it") {
    const hvd::coll::MpiJob job{.job_id = "j1",
                                .hosts = {{"node1", 2}, {"fe80::1", 0}, {"node3", 3}}};
    const auto text = encode(job);

    for (int rank = 0; rank < job.size(); ++rank) {
        const auto place = early::find_place(text.c_str(), rank);
        REQUIRE(place);
        CHECK(place->host == job.host_of(rank));
        CHECK(place->size == job.size());
        CHECK(std::string(place->job_id, place->job_id_size) == job.job_id);
    }
    CHECK_FALSE(early::find_place(text.c_str(), job.size()));
}

TEST_CASE("what is no description of a job has no place for a rank") {
    for (const auto* text : {"", "j", ";a:1", "j;", "j;a", "j;:1", "j;a:", "j;a:x", "j;a:-1",
                             "j;a:1;", "j;a:9999999999"}) {
        CAPTURE(text);
        CHECK_FALSE(early::find_place(text, 0));
        CHECK_FALSE(hvd::coll::decode_mpi_job(text));
    }
}

TEST_CASE("a variable is found by its whole name") {
    const std::array<const char*, 5> variables{"PATHS=1", "NOTHING", "PATH=a=b", "PATH=c", nullptr};

    CHECK(early::value_of(variables.data(), "PATH") == std::string("a=b"));
    CHECK(early::value_of(variables.data(), "NOTHING") == nullptr);
    CHECK(early::value_of(variables.data(), "PAT") == nullptr);
}

TEST_CASE("a frame is the one that the whole shim sends") {
    const agent::ShimClaim claim{.build_id = "b1",
                                 .job_id = "j",
                                 .rank = 7,
                                 .size = 300,
                                 .pid = 70000,
                                 .parent = 6,
                                 .needs_watch = true,
                                 .starts_in_turn = true};
    const auto expected = encode(claim);
    early::Line<64> body;
    early::Line<64> frame;

    body.add_text("b1", 2).add_text("j", 1).add_u32(7).add_u32(300);
    body.add_u32(70000).add_u32(6).add_u32(1).add_u32(1);
    frame.add_text(body.data(), body.size());

    REQUIRE(frame.size() == expected.size());
    CHECK(std::memcmp(frame.data(), expected.data(), expected.size()) == 0);
}

TEST_CASE("a line that is too long is cut and says so") {
    early::Line<4> line;

    CHECK(line.add("ab").add_decimal(10).is_whole());
    CHECK_FALSE(line.add("c").is_whole());
    CHECK(line.text() == std::string("ab10"));
}

TEST_CASE("a reader never reads past its end") {
    std::array<char, 8> bytes{2, 0, 0, 0, 'a', 'b', 1, 0};
    early::Reader reader(bytes.data(), bytes.size());
    std::size_t size = 0;

    CHECK(reader.text(size) == bytes.data() + 4);
    CHECK(size == 2);
    CHECK(reader.u32() == 0);
    CHECK(reader.has_failed());
    CHECK(reader.text(size) == nullptr);
}

TEST_CASE("a number is found in pieces of a list, and only as a whole") {
    const auto is_in = [](std::string_view first, std::string_view second) {
        early::NumberSearch search(345);
        search.feed(first.data(), first.size());
        search.feed(second.data(), second.size());
        return search.finish();
    };

    CHECK(is_in("12 34", "5 6 "));
    CHECK(is_in("12 345", ""));
    CHECK_FALSE(is_in("12 3456", " 34 "));
    CHECK_FALSE(is_in("", ""));
}
