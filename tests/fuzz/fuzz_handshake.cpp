// SPDX-License-Identifier: Apache-2.0
//
// Any bytes to a rank's listening socket, and any answer of a false listener. The
// first byte picks the end; the others arrive cut into pieces.
#include "collectives/transport/tcp/address.hpp"
#include "collectives/transport/tcp/handshake.hpp"
#include "collectives/transport/tcp/rank_record.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

using hvd::coll::WorldKey;
using hvd::coll::net::Handshake;
using hvd::coll::net::Nonce;
using hvd::coll::net::Purpose;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    WorldKey key{};
    key.fill(std::byte{0x5a});
    const Nonce nonce{};
    auto handshake = (data[0] & 1U) != 0
                         ? Handshake::connecting(key, {.rank = 1, .pid = 7, .host = "h"}, 0,
                                                 Purpose::data, nonce)
                         : Handshake::listening(key, {.rank = 0, .pid = 8, .host = "g"}, nonce);
    auto rest = std::as_bytes(std::span(data, size)).subspan(1);
    (void)hvd::coll::net::decode_rank_record(rest);
    const std::size_t piece = 1 + (data[0] >> 1U);
    while (!rest.empty() && handshake.needed() != 0) {
        const auto taken = std::min({piece, rest.size(), handshake.needed()});
        if (!handshake.feed(rest.first(taken))) {
            return 0;
        }
        rest = rest.subspan(taken);
        (void)handshake.take_output();
        if (handshake.is_answered() || handshake.is_done()) {
            std::abort();  // nobody who does not know the key gets here
        }
    }
    return 0;
}
