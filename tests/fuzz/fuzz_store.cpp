// SPDX-License-Identifier: Apache-2.0
//
// Any bytes to a store server or as its answer, and any messages of a process that knows the
// key can. The first byte picks the end; the others arrive cut into pieces.
#include "collectives/rendezvous/tcp/registry.hpp"
#include "collectives/rendezvous/tcp/session.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

using hvd::coll::store::create_key_authenticator;
using hvd::coll::store::Registry;
using hvd::coll::store::Session;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    auto rest = std::as_bytes(std::span(data, size)).subspan(1);
    (void)hvd::coll::store::decode_membership(rest);
    (void)hvd::coll::store::decode_reply(rest);
    if (const auto request = hvd::coll::store::decode_request(rest)) {
        Registry book(3);
        (void)book.on(1, *request);
        (void)book.on(2, *request);
        book.on_leave(1);
    }

    constexpr std::array<std::byte, 16> kSecret{std::byte{0x5a}};
    const auto authenticator = create_key_authenticator(kSecret);
    Session session((data[0] & 1U) != 0 ? Session::Side::client : Session::Side::server,
                    *authenticator, "job");
    const std::size_t piece = 1 + (data[0] >> 1U);
    while (!rest.empty()) {
        const auto taken = std::min(piece, rest.size());
        if (!session.feed(rest.first(taken))) {
            return 0;
        }
        rest = rest.subspan(taken);
        (void)session.take_output();
        if (session.is_ready()) {
            std::abort();  // nobody who does not know the key gets here
        }
    }
    return 0;
}
