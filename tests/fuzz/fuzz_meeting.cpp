// SPDX-License-Identifier: Apache-2.0
//
// What a stranger can send to a meeting point or answer in its place, and what one who knows the
// key can. The first byte picks the end; the others arrive cut into pieces.
#include "collectives/meeting/book.hpp"
#include "collectives/meeting/session.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

using hvd::coll::meeting::Book;
using hvd::coll::meeting::create_key_prover;
using hvd::coll::meeting::Session;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    auto rest = std::as_bytes(std::span(data, size)).subspan(1);
    (void)hvd::coll::meeting::decode_roll(rest);
    (void)hvd::coll::meeting::decode_reply(rest);
    if (const auto request = hvd::coll::meeting::decode_request(rest)) {
        Book book(3);
        (void)book.on(1, *request);
        (void)book.on(2, *request);
        book.on_leave(1);
    }

    constexpr std::array<std::byte, 16> kSecret{std::byte{0x5a}};
    const auto prover = create_key_prover(kSecret);
    Session session((data[0] & 1U) != 0 ? Session::Side::comes : Session::Side::keeps, *prover,
                    "job");
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
