// SPDX-License-Identifier: Apache-2.0
//
// The bytes of an unauthenticated peer of `horovodrun --listen`, and a false launcher's replies to
// `--join`. The first byte picks the end; the others arrive cut into pieces.
#include "collectives/base/assert.hpp"
#include "launcher/wire/encryption.hpp"
#include "launcher/wire/join.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

using namespace hvd::launch::wire;  // NOLINT(google-build-using-namespace): the tested one

namespace {

/// A peer that knows the token may send anything.
void read_first_messages(std::span<const std::byte> bytes) {
    std::vector<std::byte> introduction(bytes.begin(), bytes.end());
    auto answer = introduction;
    (void)take_introduction(introduction);
    (void)take_join_answer(answer);
    HVD_ASSERT(introduction.size() <= bytes.size(), "nothing is added");
}

void decrypt_records(const Key& key, std::span<const std::byte> bytes, std::size_t piece) {
    Decryptor decryptor(key);
    while (!bytes.empty()) {
        const auto taken = std::min(piece, bytes.size());
        const auto plain = decryptor.decrypt(bytes.first(taken));
        if (!plain) {
            return;
        }
        HVD_ASSERT(plain->empty(), "nothing decrypts that was not encrypted");
        bytes = bytes.subspan(taken);
    }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer calls it by this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    Key token{};
    token.fill(std::byte{0x5a});
    const JoinNonce nonce{};
    auto handshake = (data[0] & 1U) != 0 ? JoinHandshake::joining(token, nonce)
                                         : JoinHandshake::listening(token, nonce);
    auto rest = std::as_bytes(std::span(data, size)).subspan(1);
    const std::size_t piece = 1 + (data[0] >> 1U);
    read_first_messages(rest);
    decrypt_records(token, rest, piece);
    while (!rest.empty() && handshake.needed() != 0) {
        const auto taken = std::min({piece, rest.size(), handshake.needed()});
        const bool is_right = handshake.feed(rest.first(taken)).has_value();
        (void)handshake.take_output();
        HVD_ASSERT(!handshake.is_done(), "nobody who does not know the token gets here");
        if (!is_right) {
            return 0;
        }
        rest = rest.subspan(taken);
    }
    return 0;
}
