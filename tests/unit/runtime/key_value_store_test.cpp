// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/key_value_store.hpp"

#include "collectives/base/unique_fd.hpp"
#include "runtime/bootstrap/server_notice.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

using hvd::rt::decode_notice;
using hvd::rt::encode_notice;
using hvd::rt::find_key_value_store;
using hvd::rt::open_pmi;
using hvd::rt::ports_of;
using hvd::rt::public_addresses;
using hvd::rt::ServerNotice;
using namespace std::chrono_literals;
using hvd::Deadline;
using hvd::Errc;
using hvd::UniqueFd;
using hvd::coll::net::HostAddress;
using hvd::coll::net::parse_ip;

namespace {

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

/// The messages of a launcher and its replies, in order. Returns the first difference.
using Script = std::vector<std::pair<std::string, std::string>>;

struct Pmi {
    UniqueFd rank;
    UniqueFd launcher;
    std::string heard{};
    std::jthread thread{};

    explicit Pmi(Script script) {
        std::array<int, 2> ends{};
        REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
        rank = UniqueFd(ends[0]);
        launcher = UniqueFd(ends[1]);
        thread = std::jthread([this, script = std::move(script)] {
            for (const auto& [expected, answer] : script) {
                std::string line;
                char character = 0;
                while (::read(launcher.get(), &character, 1) == 1 && character != '\n') {
                    line += character;
                }
                if (line != expected) {
                    heard += line + "; ";
                }
                [[maybe_unused]] const auto written =
                    ::write(launcher.get(), answer.data(), answer.size());
            }
            (void)::shutdown(launcher.get(), SHUT_WR);
        });
    }
};

const Script kBegin = {
    {"cmd=init pmi_version=1 pmi_subversion=1",
     "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
    {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_7_0\n"},
};

Script and_then(Script script, const Script& more) {
    script.insert(script.end(), more.begin(), more.end());
    return script;
}

Deadline soon() {
    return Deadline::in(5s);
}

}  // namespace

TEST_CASE("rank 0 leaves a text with PMI-1, and the others read it behind the barrier") {
    Pmi first(and_then(
        kBegin, {{"cmd=put kvsname=kvs_7_0 key=k value=a,b", "cmd=put_result rc=0 msg=success\n"},
                 {"cmd=barrier_in", "cmd=barrier_out\n"},
                 {"cmd=finalize", "cmd=finalize_ack\n"}}));
    Pmi second(and_then(kBegin, {{"cmd=barrier_in", "cmd=barrier_out\n"},
                                 {"cmd=get kvsname=kvs_7_0 key=k",
                                  "cmd=get_result rc=0 msg=success value=a,b\n"}}));

    auto posting = open_pmi(first.rank.get(), soon());
    auto reading = open_pmi(second.rank.get(), soon());
    REQUIRE(posting);
    REQUIRE(reading);
    CHECK((*posting)->put("k", "a,b", soon()));
    CHECK((*reading)->get("k", soon()).value() == "a,b");
    (*posting)->finish();

    first.thread.join();
    second.thread.join();
    CHECK(first.heard.empty());
    CHECK(second.heard.empty());
}

TEST_CASE("a launcher that refuses, is gone or stays silent is an error") {
    Pmi refuses({{kBegin[0].first, "cmd=response_to_init rc=-1\n"}});
    Pmi other({{kBegin[0].first, "cmd=whatever\n"}});
    Pmi gone({});
    Pmi silent(and_then(kBegin, {{"cmd=barrier_in", ""}}));
    Pmi lacks(and_then(kBegin, {{"cmd=barrier_in", "cmd=barrier_out\n"},
                                {"cmd=get kvsname=kvs_7_0 key=k",
                                 "cmd=get_result rc=-1 msg=key_k_not_found value=unknown\n"}}));

    CHECK(contains(open_pmi(refuses.rank.get(), soon()).error().message, "rc=-1"));
    CHECK(contains(open_pmi(other.rank.get(), soon()).error().message, "cmd=whatever"));
    CHECK(contains(open_pmi(gone.rank.get(), soon()).error().message, "closed PMI_FD"));
    auto store = open_pmi(lacks.rank.get(), soon());
    REQUIRE(store);
    CHECK(contains((*store)->get("k", soon()).error().message, "key_k_not_found"));
    auto quiet = open_pmi(silent.rank.get(), soon());
    REQUIRE(quiet);
    CHECK_FALSE((*quiet)->get("k", soon()));
    CHECK(contains((*quiet)->get("k", soon()).error().message, "broken off before"));
}

TEST_CASE("without PMI and PMIx there is no store") {
    const auto store = find_key_value_store({}, 2, soon());

    REQUIRE_FALSE(store);
    CHECK(store.error().code == Errc::unavailable);
    CHECK_FALSE(find_key_value_store({{"PMI_FD", "three"}}, 2, soon()));
}

TEST_CASE("a notice survives encoding, and a malformed one is refused") {
    const ServerNotice notice{.port = 4711,
                              .secret = std::vector(32, std::byte{0x5a}),
                              .ips = {*parse_ip("10.0.0.1"), *parse_ip("fd00::1")}};
    const auto text = encode_notice(notice);

    CHECK(decode_notice(text).value() == notice);
    CHECK(text.find_first_of(" =\n") == std::string::npos);
    for (const auto* wrong : {"", "4711", "4711,5a", "0,5a,10.0.0.1", "4711,5,10.0.0.1",
                              "4711,xx,10.0.0.1", "4711,5a,node1", "99999,5a,10.0.0.1"}) {
        CAPTURE(wrong);
        CHECK_FALSE(decode_notice(wrong));
    }
}

TEST_CASE("loopback is told only where there is nothing else, the faster first") {
    const HostAddress lo{.interface = "lo", .ip = *parse_ip("127.0.0.1"), .prefix = 8};
    const HostAddress slow{
        .interface = "a", .ip = *parse_ip("10.0.0.1"), .prefix = 8, .speed = 1000};
    const HostAddress fast{
        .interface = "b", .ip = *parse_ip("10.1.0.1"), .prefix = 8, .speed = 100000};

    CHECK(public_addresses(std::vector{lo, slow, fast}) == std::vector{fast.ip, slow.ip});
    CHECK(public_addresses(std::vector{lo}) == std::vector{lo.ip});
    CHECK(ports_of({}) == std::vector<std::uint16_t>{0});
    CHECK(ports_of({.first = 5, .last = 7}) == std::vector<std::uint16_t>{5, 6, 7});
    CHECK(ports_of({.first = 60000, .last = 65535}).size() == 256);
}
