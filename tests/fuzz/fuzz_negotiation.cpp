// SPDX-License-Identifier: Apache-2.0
//
// Negotiation messages: whatever the bytes are, decoding ends in a value or an error, a decoded
// value survives encoding, and the coordinator takes every announcement.
#include "runtime/negotiation/coordinator.hpp"
#include "runtime/negotiation/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

using hvd::rt::Coordinator;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    if (const auto decision = hvd::rt::decode_decision(bytes)) {
        if (!hvd::rt::decode_decision(hvd::rt::encode(*decision))) {
            std::abort();
        }
    }
    const auto announcement = hvd::rt::decode_announcement(bytes);
    if (!announcement) {
        return 0;
    }
    if (hvd::rt::encode(*announcement).size() != size) {
        std::abort();
    }
    Coordinator coordinator(2, {.capacity = 2, .ids = 8, .quarantine = 2});
    for (int round = 0; round < 4; ++round) {
        (void)coordinator.announce(0, *announcement);
        if (coordinator.announce(1, *announcement).empty()) {
            std::abort();
        }
    }
    return 0;
}
